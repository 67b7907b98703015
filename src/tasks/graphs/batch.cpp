#include "tasks/graphs/batch.h"

#include <ATen/ATen.h>

#include <numeric>

#include "data/graphs/surroundings.h"

namespace topomask {
namespace {

GraphSample to_device(GraphSample sample, at::Device device) {
  if (device.is_cpu()) return sample;
  sample.graph = sample.graph.to(device);
  for (at::Tensor* tensor : {&sample.features, &sample.labels, &sample.membership, &sample.nodes, &sample.parents}) {
    if (tensor->defined()) *tensor = tensor->to(device);
  }
  return sample;
}

/// The rows that are judged: those of `rows` that have a label.
TaskBatch finished(TaskBatch batch, const at::Tensor& rows, at::Device device) {
  const at::Tensor& labels = batch.sample.labels;
  batch.rows = rows.index({labels.index({rows}) >= 0});
  batch.labels = labels.index({batch.rows}).to(device);
  batch.rows = batch.rows.to(device);
  batch.sample = to_device(std::move(batch.sample), device);
  if (!device.is_cpu()) batch.structure = batch.structure.to(at::TensorOptions().device(device));
  return batch;
}

}  // namespace

TaskBatch make_batch(const LoadedGraphs& data, const GraphStructure& structure, at::IntArrayRef items,
                     at::Device device) {
  std::vector<int64_t> all;
  if (data.split.by_node) {
    all.resize(static_cast<size_t>(data.set.size()));
    std::iota(all.begin(), all.end(), 0);
  }
  const at::IntArrayRef graphs = data.split.by_node ? at::IntArrayRef(all) : items;
  TaskBatch batch{.sample = take(data.set, graphs), .structure = take(structure, data.set, graphs)};
  const at::Tensor rows =
      data.split.by_node ? at::tensor(items, at::kLong) : at::arange(batch.sample.labels.size(0), at::kLong);
  return finished(std::move(batch), rows, device);
}

TaskBatch make_surroundings_batch(const LoadedGraphs& data, const GraphDataOptions& options, const GraphModel& model,
                                  const NodeRows& positions, at::IntArrayRef items, uint64_t seed, uint32_t draw,
                                  at::Device device) {
  const std::vector<int64_t> nodes =
      sample_surroundings(data.set.graph, items, options.hops, options.fanout, seed, draw);
  const at::Tensor places = at::tensor(nodes, at::kLong);
  const GraphSet part = induced_set(data.set, nodes);
  NodeRows taken;
  for (const auto& [name, rows] : positions) taken[name] = rows.index_select(0, places);
  TaskBatch batch{.sample = take(part, {0}), .structure = model.structure(part, std::move(taken))};
  batch.sample.nodes = places;
  return finished(std::move(batch), at::searchsorted(places, at::tensor(items, at::kLong)), device);
}

}  // namespace topomask

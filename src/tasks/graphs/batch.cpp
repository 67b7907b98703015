#include "tasks/graphs/batch.h"

#include <ATen/ATen.h>

#include <numeric>

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
  const at::Tensor& labels = batch.sample.labels;
  batch.rows = data.split.by_node ? at::tensor(items, at::kLong) : at::arange(labels.size(0), at::kLong);
  batch.rows = batch.rows.index({labels.index({batch.rows}) >= 0});
  batch.labels = labels.index({batch.rows}).to(device);
  batch.rows = batch.rows.to(device);
  batch.sample = to_device(std::move(batch.sample), device);
  if (!device.is_cpu()) batch.structure = batch.structure.to(at::TensorOptions().device(device));
  return batch;
}

}  // namespace topomask

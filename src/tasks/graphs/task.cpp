#include "tasks/graphs/task.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "data/random_order.h"
#include "nn/stack_heads.h"
#include "tasks/autocast.h"
#include "tasks/from_data.h"
#include "tasks/graphs/augment.h"
#include "tasks/scores.h"
#include "topomask/nn/graph_mask.h"

namespace topomask {
namespace {

const TaskRegistration kGraphs("graphs", [](const RunConfig& config) { return std::make_unique<GraphTask>(config); });

}  // namespace

const char* GraphTask::items() const {
  return data().split.by_node ? "nodes" : "graphs";
}

void GraphTask::open_training() {
  config_.graph_model.check("train: model.");  // before data is read
  const GraphSet& set = data().set;
  config_.graph_model.node_level = set.node_labels;
  take_from_data("features", config_.graph_model.features, set.num_features());
  take_from_data("classes", config_.graph_model.classes, std::ssize(set.classes));
  const auto items = std::ssize(places("train"));
  TORCH_CHECK(items > 0, "train: the data must have a training split, got ", set.name, ", which has none");
  const int64_t fanout = config_.graph_data.fanout;
  TORCH_CHECK(fanout == 0 || (data().split.by_node && set.size() == 1),
              "train: data.fanout must be 0 where the data is not one graph with labelled nodes, got ", fanout);
  // The last step of an epoch may be smaller; it still has a graph for each micro-batch.
  const int64_t rest = items % items_per_step();
  const int64_t smallest = sees_whole_graph() ? 1 : rest == 0 ? items_per_step() : rest;
  TORCH_CHECK(config_.train.accumulation <= smallest, "train: accumulation must be in [1, ", smallest,
              "], the graphs of the smallest step, got ", config_.train.accumulation);
}

int64_t GraphTask::steps_per_epoch() const {
  return (std::ssize(places("train")) + items_per_step() - 1) / items_per_step();
}

int64_t GraphTask::items_per_step() const {
  const auto all = std::ssize(places("train"));
  return sees_whole_graph() ? all : std::min(all, config_.train.batch_size);
}

void GraphTask::start_epoch(int64_t epoch) {
  const std::vector<int64_t>& items = places("train");
  order_ = random_order(std::ssize(items), config_.train.seed, static_cast<uint32_t>(epoch), DrawFor::order);
  for (int64_t& place : order_) place = items[static_cast<size_t>(place)];
  if (sees_surroundings()) {
    graph_model().start_epoch(epoch);
    if (epoch_ < 0) positions_ = graph_model().positions(data().set);
    epoch_ = epoch;
    return;
  }
  const GraphStructure& first = evaluation_structure();
  if (graph_model().start_epoch(epoch)) {
    structure_ = graph_model().structure(data().set);
    whole_.reset();
  } else if (epoch_ < 0) {
    structure_ = first;
  }
  epoch_ = epoch;
}

void GraphTask::load_batch(int64_t step) {
  const int64_t epoch = step / steps_per_epoch(), first = step % steps_per_epoch() * items_per_step();
  if (epoch != epoch_) start_epoch(epoch);
  if (sees_whole_graph()) {
    // In the order of the split, not of the epoch: a sum over nodes has the same bits in a run that was resumed.
    if (!whole_) whole_ = make_batch(data(), structure_, places("train"), device());
    micro_batches_ = {*whole_};
    labelled_ = whole_->rows.size(0);
    return;
  }
  const int64_t count = std::min(items_per_step(), std::ssize(order_) - first);
  const at::Tensor items = at::tensor(at::IntArrayRef(order_).slice(first, count), at::kLong);
  micro_batches_.clear();
  labelled_ = 0;
  for (const at::Tensor& part : items.tensor_split(config_.train.accumulation)) {
    const at::IntArrayRef places(part.const_data_ptr<int64_t>(), static_cast<size_t>(part.size(0)));
    const auto draw = static_cast<uint32_t>(step * config_.train.accumulation + std::ssize(micro_batches_));
    micro_batches_.push_back(sees_surroundings()
                                 ? make_surroundings_batch(data(), config_.graph_data, graph_model(), positions_,
                                                           places, config_.train.seed, draw, device())
                                 : make_batch(data(), structure_, places, device()));
    augment_clouds(micro_batches_.back().sample, config_.graph_data, data().set.vectors, config_.train.seed, draw);
    labelled_ += micro_batches_.back().rows.size(0);
  }
}

at::Tensor GraphTask::loss(int64_t part) {
  const TaskBatch& batch = micro_batches_[static_cast<size_t>(part)];
  const at::Tensor sum = at::cross_entropy_loss(logits_of(batch).to(at::kFloat), batch.labels, {}, at::Reduction::Sum,
                                                -100, config_.train.label_smoothing);
  return sum / static_cast<double>(std::max<int64_t>(labelled_, 1));
}

std::vector<std::string> GraphTask::splits() const {
  std::vector<std::string> found;
  for (const char* split : {"validation", "test"}) {
    if (!places(split).empty()) found.emplace_back(split);
  }
  return found;
}

Evaluation GraphTask::evaluate(const std::string& split) {
  const at::NoGradGuard no_grad;
  const bool was_training = model().is_training();
  model().eval();
  Scores scores(config_.graph_model.classes, device());
  for (const TaskBatch& batch : evaluation_batches(split)) scores.add(logits_of(batch), batch.labels);
  model().train(was_training);
  return scores.result();
}

int64_t GraphTask::size(const std::string& split) {
  return std::ssize(places(split));
}

std::vector<std::string> GraphTask::classes() {
  return data().set.classes;
}

at::Tensor GraphTask::modulation() {
  std::vector<at::Tensor> functions;  // of the layers' masks, [H, K]
  for (const auto& module : model().modules()) {
    const auto* mask = dynamic_cast<const GraphMask*>(module.get());
    if (mask == nullptr) continue;
    if (at::Tensor function = mask->modulation(); function.defined()) functions.push_back(function.detach());
  }
  return stack_heads(std::move(functions));
}

std::shared_ptr<torch::nn::Module> GraphTask::new_model() const {
  return make_graph_model(config_.graph_model, config_.train.seed);
}

const LoadedGraphs& GraphTask::data() const {
  if (!data_) data_ = std::make_unique<const LoadedGraphs>(open_graphs(config_.graph_data));
  return *data_;
}

const std::vector<int64_t>& GraphTask::places(const std::string& split) const {
  const Split chosen = split_named(split);
  const GraphSplit& all = data().split;
  return chosen == Split::train ? all.train : chosen == Split::validation ? all.validation : all.test;
}

const GraphStructure& GraphTask::evaluation_structure() {
  if (!evaluation_structure_) {
    const int64_t epoch = graph_model().epoch();
    graph_model().start_epoch(0);
    evaluation_structure_ = graph_model().structure(data().set);
    graph_model().start_epoch(epoch);
  }
  return *evaluation_structure_;
}

/// Made once: the graphs of a split and their structure stay as they are.
const std::vector<TaskBatch>& GraphTask::evaluation_batches(const std::string& split) {
  const auto [found, is_new] = evaluation_batches_.try_emplace(split);
  if (!is_new) return found->second;
  const at::IntArrayRef all(places(split));
  const auto size = std::ssize(all);
  const int64_t most = data().split.by_node ? std::max<int64_t>(size, 1) : config_.train.evaluation_batch;
  for (int64_t first = 0; first < size; first += most) {
    const at::IntArrayRef items =
        all.slice(static_cast<size_t>(first), static_cast<size_t>(std::min(most, size - first)));
    found->second.push_back(make_batch(data(), evaluation_structure(), items, device()));
  }
  return found->second;
}

at::Tensor GraphTask::logits_of(const TaskBatch& batch) {
  const Autocast autocast(device().type(), config_.train.precision);
  return graph_model().forward(batch.sample, batch.structure).index_select(0, batch.rows);
}

}  // namespace topomask

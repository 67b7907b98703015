#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tasks/graphs/batch.h"
#include "topomask/tasks/task.h"

namespace topomask {

/// Classification of graphs, of the nodes of many graphs, or of the nodes of one graph. A step sees a batch of graphs;
/// of one graph that is split by its nodes it sees the whole, or some nodes with what surrounds them (data.fanout).
/// Evaluation sees the whole.
class GraphTask final : public Task {
 public:
  using Task::Task;

  const char* items() const override;
  void open_training() override;

  int64_t steps_per_epoch() const override;
  int64_t items_per_step() const override;
  void load_batch(int64_t step) override;
  at::Tensor loss(int64_t part) override;

  std::vector<std::string> splits() const override;
  Evaluation evaluate(const std::string& split) override;
  int64_t size(const std::string& split) override;
  std::vector<std::string> classes() override;
  at::Tensor modulation() override;  ///< NaN for heads that a layer does not have

  const LoadedGraphs& data() const;
  GraphModel& graph_model() const { return static_cast<GraphModel&>(model()); }
  const std::vector<int64_t>& places(const std::string& split) const;
  /// Walks that are drawn again for each epoch are for training; evaluation keeps those of the first.
  const GraphStructure& evaluation_structure();

 private:
  std::shared_ptr<torch::nn::Module> new_model() const override;
  bool sees_whole_graph() const { return data().split.by_node && config_.graph_data.fanout == 0; }
  bool sees_surroundings() const { return data().split.by_node && config_.graph_data.fanout > 0; }
  void start_epoch(int64_t epoch);
  const std::vector<TaskBatch>& evaluation_batches(const std::string& split);
  at::Tensor logits_of(const TaskBatch& batch);

  mutable std::unique_ptr<const LoadedGraphs> data_;
  std::vector<int64_t> order_;  // of the training items in this epoch
  int64_t epoch_ = -1;
  GraphStructure structure_;  // of this epoch, where batches are taken from it
  NodeRows positions_;        // in the whole graph, where batches are surroundings
  std::optional<GraphStructure> evaluation_structure_;
  std::map<std::string, std::vector<TaskBatch>> evaluation_batches_;
  std::optional<TaskBatch> whole_;        // training items of a set that is split by nodes
  std::vector<TaskBatch> micro_batches_;  // of the current step
  int64_t labelled_ = 0;                  // items in them
};

}  // namespace topomask

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tasks/points/batch.h"
#include "topomask/nn/point_model.h"
#include "topomask/tasks/task.h"

namespace topomask {

/// Prediction of the frames that follow two: particles of the two frames, a rollout under the robot's actions, and the
/// squared error of the colours of some rays. An item of training is a window of an episode, of evaluation an episode
/// from its first frame on.
class PointTask final : public Task {
 public:
  using Task::Task;

  const char* items() const override { return "episodes"; }
  const char* score() const override { return "ssim"; }
  void open_training() override;

  int64_t steps_per_epoch() const override;
  int64_t items_per_step() const override;
  void load_batch(int64_t step) override;
  at::Tensor loss(int64_t part) override;

  std::vector<std::string> splits() const override;
  Evaluation evaluate(const std::string& split) override;
  int64_t size(const std::string& split) override;
  std::vector<std::string> classes() override { return {}; }

  PointModel& point_model() const { return static_cast<PointModel&>(model()); }
  EpisodeCache& episodes() const;
  const std::vector<int64_t>& places(const std::string& split) const;

  /// Clouds of a batch that follow two frames, and the images of all cameras.
  struct Rollout {
    PointModel::Encoded now;         ///< particles of frame t−1
    std::vector<PointCloud> clouds;  ///< [S]
  };
  Rollout roll(const SceneBatch& batch);
  /// [B, C, 3, H, W] in [0, 1], float32.
  at::Tensor picture(const PointCloud& cloud, const Cameras& cameras);
  /// The particles of frames rgb [B, C, H, W, 3] and depth, rendered where they are.
  at::Tensor encoded_picture(const at::Tensor& rgb, const at::Tensor& depth, const SceneBatch& batch);
  /// The window of an episode that evaluation looks at.
  static Window evaluation_window(int64_t episode);
  int64_t evaluation_steps(const std::vector<int64_t>& chosen) const;

 private:
  std::shared_ptr<torch::nn::Module> new_model() const override;
  void split_episodes() const;
  void add_scores(class StepScores& scores, const SceneBatch& batch, std::span<const int64_t> chosen, double& squares);

  mutable std::unique_ptr<EpisodeCache> episodes_;
  mutable std::vector<int64_t> train_, validation_, test_;  // episodes
  std::vector<Window> windows_;                             // of the training episodes
  std::vector<int64_t> order_;                              // of them in this epoch
  int64_t epoch_ = -1;
  std::vector<SceneBatch> micro_batches_;  // of the current step
  int64_t scenes_ = 0;                     // in them
};

}  // namespace topomask

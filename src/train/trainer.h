#pragma once

#include <memory>

#include "topomask/tasks/task.h"
#include "topomask/train/checkpoint.h"
#include "topomask/train/moving_average.h"
#include "topomask/train/optimiser.h"
#include "train/best_weights.h"

namespace topomask {

/// Optimiser, average and place in the data of a run, and the one step that moves them on.
class Trainer {
 public:
  /// The task's training data is open and its model is made.
  explicit Trainer(Task& task);

  int64_t step() const { return step_; }    ///< steps made
  int64_t steps() const { return steps_; }  ///< to be made in all
  double epoch() const { return static_cast<double>(step_) / static_cast<double>(task_.steps_per_epoch()); }
  double last_learning_rate() const;  ///< of the step made last
  bool out_of_patience() const;       ///< validation has not improved for too long
  bool finished() const { return step_ >= steps_ || out_of_patience(); }

  at::Tensor advance();  ///< one step; returns its loss, on the device
  /// Evaluates the weights that are judged while training: the moving average where there is one.
  Evaluation evaluated(const std::string& split);
  /// Evaluates those that are judged at the end: the best ones where train.select says so.
  Evaluation evaluated_at_end(const std::string& split);

  Checkpoint checkpoint() const;  ///< shares the memory of the weights
  void restore(const Checkpoint& checkpoint);

 private:
  Task& task_;
  const TrainOptions options_;
  Optimiser optimiser_;
  MovingAverage average_;
  BestWeights best_;
  int64_t step_ = 0, steps_ = 0;
};

}  // namespace topomask

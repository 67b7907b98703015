#pragma once

#include <memory>

#include "topomask/data/loader.h"
#include "topomask/nn/vit.h"
#include "topomask/train/checkpoint.h"
#include "topomask/train/moving_average.h"
#include "topomask/train/optimiser.h"
#include "topomask/train/train.h"

namespace topomask {

/// Model, optimiser, average and place in the data of a run, and the one step that moves them on.
class Trainer {
 public:
  /// The configuration is complete; the data set is that of training.
  Trainer(const RunConfig& config, const DatasetPtr& dataset);

  int64_t step() const { return step_; }    ///< steps made
  int64_t steps() const { return steps_; }  ///< to be made in all
  double epoch() const { return static_cast<double>(step_) / static_cast<double>(loader_.steps_per_epoch()); }
  int64_t steps_per_epoch() const { return loader_.steps_per_epoch(); }
  double last_learning_rate() const;  ///< of the step made last
  ViT& model() { return *model_; }
  const AugmentOptions& augment() const { return augment_; }

  at::Tensor advance();  ///< one step; returns its loss, on the device
  /// The weights that are judged: the moving average where there is one.
  Evaluation evaluated(const DatasetPtr& dataset);

  Checkpoint checkpoint() const;  ///< shares the memory of the weights
  void restore(const Checkpoint& checkpoint);

 private:
  RunConfig config_;
  at::Device device_;
  AugmentOptions augment_;
  std::shared_ptr<ViT> model_;
  std::unique_ptr<Optimiser> optimiser_;
  std::unique_ptr<MovingAverage> average_;
  Loader loader_;
  int64_t step_ = 0, steps_ = 0;
};

}  // namespace topomask

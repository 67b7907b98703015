#pragma once

#include <torch/nn/module.h>

#include <cstdint>

#include "topomask/tasks/task.h"
#include "topomask/train/weight_copies.h"

namespace topomask {

/// A copy of the weights that did best on validation data so far, and how long ago that was.
class BestWeights {
 public:
  /// Keeps nothing where it is not enabled.
  BestWeights(const torch::nn::Module& model, bool enabled);

  bool enabled() const { return enabled_; }
  /// The model's weights as they are, and how well they did: kept where accuracy is higher, or equal at a lower loss.
  void offer(const Evaluation& evaluation);
  int64_t evaluations_since() const { return since_; }  ///< the best one
  /// Swaps the model's weights with the best ones; a second call swaps them back.
  void exchange() { best_.exchange(); }

  NamedTensors state() const { return best_.state(); }  ///< empty where nothing is kept
  at::Tensor score() const;  ///< double [3]: accuracy, loss, evaluations since; undefined where nothing is kept
  void restore(const NamedTensors& state, const at::Tensor& score);

 private:
  bool enabled_;
  WeightCopies best_;  // without copies before the first offer
  double accuracy_ = -1, loss_ = 0;
  int64_t since_ = 0;
};

}  // namespace topomask

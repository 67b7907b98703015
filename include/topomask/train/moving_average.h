#pragma once

#include <torch/nn/module.h>

#include "topomask/export.h"
#include "topomask/train/weight_copies.h"

namespace TOPOMASK_API topomask {

/// An exponential moving average of a model's parameters: a ← d·a + (1 − d)·θ after every step, d = min(decay,
/// (1 + t)/(10 + t)) so that the first steps do not weigh for long. A decay of 0 keeps nothing.
class MovingAverage {
 public:
  MovingAverage(const torch::nn::Module& model, double decay);

  bool enabled() const { return decay_ > 0; }
  void update(int64_t step);                 ///< after step t = 0, 1, …
  void exchange() { averages_.exchange(); }  ///< the model gets the average and its own parameters are kept here

  NamedTensors state() const { return averages_.state(); }  ///< empty where disabled
  void restore(const NamedTensors& state);

 private:
  double decay_;
  WeightCopies averages_;
};

}  // namespace topomask

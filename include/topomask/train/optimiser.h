#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <map>
#include <string>
#include <vector>

#include "topomask/export.h"
#include "topomask/run_config.h"

namespace TOPOMASK_API topomask {

using NamedTensors = std::map<std::string, at::Tensor>;

/// Adam (Kingma and Ba 2015) or AdamW (Loshchilov and Hutter 2019) by torch's fused kernels, in three groups: matrices,
/// which decay, other parameters, and those of masks, whose learning rate is multiplied (see ParameterKind).
class Optimiser {
 public:
  Optimiser(const torch::nn::Module& model,
            const TrainOptions& options);  ///< options as TrainOptions::check wants them

  /// One step by the gradients at hand, which are clipped to a common norm and then dropped. A parameter without a
  /// gradient counts as having a zero one. The learning rate is finite and >= 0. Returns the norm before clipping, on
  /// the parameters' device.
  at::Tensor step(double learning_rate);

  /// Moments and the number of steps made, by the parameters' names. `restore` refuses tensors of other names or
  /// shapes.
  NamedTensors state() const;
  void restore(const NamedTensors& state);

 private:
  struct Group {
    double weight_decay, rate;
    std::vector<std::string> names;
    std::vector<at::Tensor> parameters, first, second;
  };

  TrainOptions options_;
  std::vector<Group> groups_;
  at::Tensor steps_;  // float32, one for all parameters, as the kernels take it
};

}  // namespace topomask

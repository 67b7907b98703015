#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "topomask/export.h"

namespace TOPOMASK_API topomask {

/// How a model's parameter is treated in training.
enum class ParameterKind {
  matrix,  ///< decays: what multiplies features in a linear layer, a convolution or a layer of graph attention
  vector,  ///< biases, norms, positions, CLS: does not decay
  mask,    ///< what a mask has learnable: does not decay, and has a learning rate of its own
};

/// By its name in named_parameters(), where a mask's are under a module "mask". Weights of norms are vectors.
ParameterKind parameter_kind(const std::string& name, const at::Tensor& parameter);

}  // namespace topomask

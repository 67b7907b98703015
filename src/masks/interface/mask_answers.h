#pragma once

#include <vector>

#include "topomask/mask.h"

namespace topomask {

/// The three protected functions of `Mask`, for code that computes on plain tensors while no gradient is being
/// recorded: the products' autograd, masks made of other masks, the operator route, and tests. All other code calls
/// Mask::matmul, which checks x and records gradients.
struct MaskAnswers {
  static at::Tensor apply(const Mask& mask, const at::Tensor& x) { return mask.apply(x); }
  static at::Tensor apply_transposed(const Mask& mask, const at::Tensor& x) { return mask.apply_transposed(x); }
  static std::vector<at::Tensor> parameter_gradients(const Mask& mask, const at::Tensor& x, const at::Tensor& grad) {
    return mask.parameter_gradients(x, grad);
  }
};

}  // namespace topomask

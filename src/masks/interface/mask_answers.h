#pragma once

#include <vector>

#include "topomask/mask.h"

namespace topomask {

/// The protected functions of `Mask`, for code that computes on plain tensors while no gradient is being
/// recorded: the products' autograd, masks made of other masks, the operator route, and tests. All other code calls
/// Mask::matmul, which checks x and records gradients.
struct MaskAnswers {
  static at::Tensor apply(const Mask& mask, const at::Tensor& x) { return mask.apply(x); }
  static at::Tensor apply_transposed(const Mask& mask, const at::Tensor& x) { return mask.apply_transposed(x); }
  static at::Tensor rows(const Mask& mask, int64_t first, int64_t count, const at::TensorOptions& like) {
    return mask.rows(first, count, like);
  }
  static std::vector<at::Tensor> parameter_gradients(const Mask& mask, const at::Tensor& x, const at::Tensor& grad) {
    return mask.parameter_gradients(x, grad);
  }
};

/// The columns e_first … e_(first+count−1) for each head of a mask: [1, H, N, count].
at::Tensor unit_columns(const Mask& mask, int64_t first, int64_t count, const at::TensorOptions& like);

}  // namespace topomask

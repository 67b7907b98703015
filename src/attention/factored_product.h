#pragma once

#include <ATen/core/Tensor.h>

#include "sparse/op_arguments.h"

// (M ⊙ q kᵀ)[v, 1] with M = Φ₁Φ₂ᵀ on the CPU, on checked tensors in the kernels' layout (see to_kernel_layout): q, k
// [B, H, N, m], v [B, H, N, d]. No dispatcher, no gradients: for the operator's implementation.
//
// The numerator streams over slices S of the features: Z = Φ₂ᵀ[k_S ⊗ v] is [r, |S|, d], and row i of Φ₁Z is contracted
// with q_iS at once, so that memory is O(r·|S|·d) with |S|·d about 128. The denominator is q_i · (Φ₁Φ₂ᵀk)_i.

namespace topomask {

/// The operator's checks, on any device.
void check_factored_product(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const at::Tensor& left_values, const PatternTensors& left, const at::Tensor& right_values,
                            const PatternTensors& right);

/// Φ [N, r]: contiguous values [1 or H, entries] over a pattern.
struct FactorSide {
  at::Tensor values;
  const PatternTensors& pattern;
};

struct FactoredProduct {
  at::Tensor numerator;    ///< [B, H, N, d]
  at::Tensor denominator;  ///< [B, H, N]
};
FactoredProduct factored_product_plain(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                       const FactorSide& left, const FactorSide& right);

struct FactoredGradients {
  at::Tensor q, k, v;
  at::Tensor left, right;  ///< undefined where not wanted
};
FactoredGradients factored_product_backward_plain(const at::Tensor& grad_numerator, const at::Tensor& grad_denominator,
                                                  const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                  const FactorSide& left, const FactorSide& right, bool want_left,
                                                  bool want_right);

}  // namespace topomask

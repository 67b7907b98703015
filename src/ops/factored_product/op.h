#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "core/internal_api.h"
#include "ops/pattern.h"

// (M ⊙ q kᵀ)[v, 1] for M = Φ₁Φ₂ᵀ, Φ₁ = left and Φ₂ = right [N, r], without forming M. q, k [B, H, N, m] and v
// [B, H, N, d] have one dtype and any strides; the values of a side are [1 or H, entries] in the accumulation type, its
// pattern has its transpose (PatternTensors::kBoth).

namespace TOPOMASK_INTERNAL_API topomask {
namespace ops::factored_product {

using Two = std::tuple<at::Tensor, at::Tensor>;
using Five = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

/// Numerator [B, H, N, d] and denominator [B, H, N], both in the accumulation type and both differentiable once.
/// Streams over slices of the m features. Cost: (entries of Φ₁ and Φ₂)·m·(d + 1) per slice. The operator
/// `factored_product`.
Two multiply(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& left_values,
             at::TensorList left, const at::Tensor& right_values, at::TensorList right);

/// Gradients of q, k, v and the values of both sides: the operator `factored_product_backward`.
Five backward(const at::Tensor& grad_numerator, const at::Tensor& grad_denominator, const at::Tensor& q,
              const at::Tensor& k, const at::Tensor& v, const at::Tensor& left_values, at::TensorList left,
              const at::Tensor& right_values, at::TensorList right, bool want_left, bool want_right);

/// Both patterns, checked.
struct Sides {
  PatternTensors left, right;
};
/// What the operators on every device ask of their arguments.
Sides check(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& left_values,
            at::TensorList left, const at::Tensor& right_values, at::TensorList right);

}  // namespace ops::factored_product
}  // namespace topomask

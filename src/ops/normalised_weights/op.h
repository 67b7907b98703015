#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "core/internal_api.h"

namespace TOPOMASK_INTERNAL_API topomask {
namespace ops::normalised_weights {

using Two = std::tuple<at::Tensor, at::Tensor>;

/// M ⊙ scores / D, the rows of a dense attention matrix: scores [B, H, N, P], mask M [1 or H, N, P] in the accumulation
/// type; D is the sum over P kept at least eps from zero, with its sign (0 counts as +). On a GPU one kernel each way,
/// whose gradient of M is summed in a fixed order. Differentiable once, in scores and mask. The first result of the
/// operator `normalised_weights`; the second is D before the clamp.
at::Tensor weights(const at::Tensor& scores, const at::Tensor& mask, double eps);

/// Both results.
Two forward(const at::Tensor& scores, const at::Tensor& mask, double eps);
/// Gradients of scores and mask: the operator `normalised_weights_backward`.
Two backward(const at::Tensor& grad, const at::Tensor& scores, const at::Tensor& mask, const at::Tensor& denominator,
             double eps);

/// What the operator asks of its arguments, on every device.
void check(const at::Tensor& scores, const at::Tensor& mask, double eps);

// The same by torch's operations, on any device.
Two forward_plain(const at::Tensor& scores, const at::Tensor& mask, double eps);
Two backward_plain(const at::Tensor& grad, const at::Tensor& scores, const at::Tensor& mask,
                   const at::Tensor& denominator, double eps);

}  // namespace ops::normalised_weights
}  // namespace topomask

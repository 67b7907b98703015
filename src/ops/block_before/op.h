#pragma once

#include <ATen/core/Tensor.h>

#include "core/internal_api.h"

// The half of a transformer block in front of attention, on the CPU: q, k, v = split(norm(x)·wᵀ + b), where the
// features of queries and keys are max(·, 0) + offset. x is [N, width], the parts are [heads, N, width / heads];
// float32 or float64, `low` computes the products in bfloat16. The operators `block_before` and
// `block_before_backward`, which python/topomask/block_rows.py calls and differentiates.

namespace TOPOMASK_INTERNAL_API topomask {
namespace ops::block_before {

/// What block_before asks of its arguments.
void check(const at::Tensor& x, const at::Tensor& norm_weight, const at::Tensor& norm_bias, const at::Tensor& w,
           const at::Tensor& b, int64_t heads);

/// The same for block_before_backward: gradients of the parts like q and k, the features that block_before returned.
void check_backward(const at::Tensor& dq, const at::Tensor& dk, const at::Tensor& dv, const at::Tensor& x,
                    const at::Tensor& norm_weight, const at::Tensor& norm_bias, const at::Tensor& w,
                    const at::Tensor& q, const at::Tensor& k);

}  // namespace ops::block_before
}  // namespace topomask

#pragma once

#include <ATen/core/Tensor.h>

#include "core/internal_api.h"

// The half of a transformer block after attention, on the CPU: y = x + out·wpᵀ + bp, then
// y + gelu(norm(y)·w1ᵀ + b1)·w2ᵀ + b2. x is [N, width], out is [heads, N, width / heads]; float32 or float64, `low`
// computes the products in bfloat16. The operators `block_after` and `block_after_backward`, which
// python/topomask/block_rows.py calls and differentiates.

namespace TOPOMASK_INTERNAL_API topomask {
namespace ops::block_after {

/// What block_after asks of its arguments.
void check(const at::Tensor& x, const at::Tensor& out, const at::Tensor& wp, const at::Tensor& bp,
           const at::Tensor& norm_weight, const at::Tensor& norm_bias, const at::Tensor& w1, const at::Tensor& b1,
           const at::Tensor& w2, const at::Tensor& b2);

/// The same for block_after_backward: grad is like x.
void check_backward(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& out, const at::Tensor& wp,
                    const at::Tensor& bp, const at::Tensor& norm_weight, const at::Tensor& norm_bias,
                    const at::Tensor& w1, const at::Tensor& b1, const at::Tensor& w2);

}  // namespace ops::block_after
}  // namespace topomask

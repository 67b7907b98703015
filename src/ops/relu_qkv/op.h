#pragma once

#include <ATen/core/Tensor.h>

#include "core/internal_api.h"

namespace TOPOMASK_INTERNAL_API topomask {
namespace ops::relu_qkv {

/// Queries, keys and values of attention, [B, H, N, d].
struct Parts {
  at::Tensor q, k, v;
};

/// max(q, 0) + offset, max(k, 0) + offset and v of a layer's output qkv [B, N, 3, H, d], in one pass, and the gradient
/// of qkv from those of the three in one more: what are six elementwise operations and a concatenation otherwise. v is
/// a view of qkv. Differentiable once. Built on the operators `relu_qkv` and `relu_qkv_backward`.
Parts split(const at::Tensor& qkv, double offset);

/// Whether there is a kernel faster than torch's operators: on a GPU, of a dtype that is_node_dtype accepts,
/// contiguous, d a multiple of 8, fewer than 2³² values.
bool supports(const at::Tensor& qkv);

/// max(x, 0) + offset of the first two parts, [B, N, 2, H, d].
at::Tensor forward(const at::Tensor& qkv, double offset);

/// ∂L/∂qkv [B, N, 3, H, d]; the gradients of the parts are [B, H, N, d], with any strides.
at::Tensor backward(const at::Tensor& grad_q, const at::Tensor& grad_k, const at::Tensor& grad_v,
                    const at::Tensor& qkv);

/// What the operators ask of their arguments, on every device.
void check(const at::Tensor& qkv, double offset = 0);
void check_gradients(const at::Tensor& grad_q, const at::Tensor& grad_k, const at::Tensor& grad_v,
                     const at::Tensor& qkv);

}  // namespace ops::relu_qkv
}  // namespace topomask

#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include "core/internal_api.h"

namespace TOPOMASK_INTERNAL_API topomask {

// Linear and LayerNorm of torch, under autocast too, in a form that is fast on a GPU: the bias is added where the
// product is written, and gradients that are sums over all tokens are products with a row of ones, which torch's
// reduction over the slow dimension takes several times as long for. Products in 16 bits are padded to multiples of
// eight features.

at::Tensor forward(const torch::nn::Linear& layer, const at::Tensor& x);  ///< [..., in] → [..., out]
at::Tensor forward(const torch::nn::LayerNorm& layer,
                   const at::Tensor& x);  ///< over the last dimension, float32 or wider
/// The same in front of a linear layer: narrow rows on a GPU come in the dtype that autocast would convert them to.
at::Tensor before_linear(const torch::nn::LayerNorm& layer, const at::Tensor& x);

/// The LayerNorm of a GPU, wherever x is.
at::Tensor norm_by_products(const torch::nn::LayerNorm& layer, const at::Tensor& x);

}  // namespace topomask

#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace topomask {

/// Values of layers, each [H, K], as one tensor [layers, heads, K], with NaN for heads that a layer does not have.
/// Undefined where there is no layer.
inline at::Tensor stack_heads(std::vector<at::Tensor> layers) {
  int64_t heads = 0;
  for (const at::Tensor& layer : layers) heads = std::max(heads, layer.size(0));
  for (at::Tensor& layer : layers) {
    layer = at::constant_pad_nd(layer, {0, 0, 0, heads - layer.size(0)}, std::nan(""));
  }
  return layers.empty() ? at::Tensor() : at::stack(layers);
}

}  // namespace topomask

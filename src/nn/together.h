#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "topomask/nn/attention.h"

// Queries, keys and values that one layer makes side by side, qkv [B, T, 3, H, d].

namespace topomask {

/// q, k and v [B, H, T, d]: views on a GPU, whose kernels take rows wherever they are, copies on the CPU.
std::vector<at::Tensor> parts_of(const at::Tensor& qkv);

/// Kernel attention of a variant with this mask and map: where the map is relu with an offset and there is a kernel for
/// it, taking the parts apart and the map are one pass over memory; otherwise the variant's forward of the parts.
at::Tensor attention_together(AttentionVariant& variant, const at::Tensor& qkv, const MaskPtr& mask,
                              const FeatureMap& features);

}  // namespace topomask

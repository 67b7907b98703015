#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "topomask/sparse.h"

namespace topomask {

/// a_i · b_j for each entry (i, j) of the pattern, a [B, H, rows, C] and b [B, H, cols, C], summed over the batch, and
/// over the heads too where value_heads is 1: the gradient of ⟨a, M·b⟩ in M's values. [value_heads, entries]; not
/// differentiable.
at::Tensor sddmm(const at::Tensor& a, const at::Tensor& b, const SparsePattern& pattern, int64_t value_heads);

}  // namespace topomask

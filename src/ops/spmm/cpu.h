#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace topomask::ops::spmm {

// CPU products on tensors in the kernels' layout (see to_kernel_layout): x [B, H, N, C], values [1 or H, entries]. They
// call no dispatcher and record no gradient: for the operators' own implementations.

/// M·x, rows taken from the pattern's offsets. With `index` defined, entry e has the value values[index[e]].
at::Tensor spmm_plain(const at::Tensor& values, const at::Tensor& x, const at::Tensor& offsets,
                      const at::Tensor& columns, const at::Tensor& index = {});

/// a_i · b_j for each entry (i, j), summed over the batch, and over heads where value_heads is 1. [value_heads,
/// entries]
at::Tensor sddmm_plain(const at::Tensor& a, const at::Tensor& b, const at::Tensor& offsets, const at::Tensor& columns,
                       int64_t value_heads);

}  // namespace topomask::ops::spmm

#pragma once

#include <ATen/ATen.h>

#include <algorithm>

// The gradient of values that slices share, the same from run to run: slice s belongs to strand s mod n, a strand's
// slices are added one after the other by one thread, and its sums have a row of memory of their own.

namespace topomask::cuda {

/// How many strands: as few as still fill a GPU, a multiple of `value_heads`.
inline int64_t strands(int64_t rows, int64_t slices, int64_t value_heads) {
  constexpr int64_t kEnoughRows = 1 << 17;
  const int64_t sharing = slices / value_heads;
  const int64_t turns = std::max<int64_t>(1, slices * rows / kEnoughRows);
  return value_heads * std::max<int64_t>(1, (sharing + turns - 1) / turns);
}

/// [strands, entries] for their sums; zeros where no slice will write them.
inline at::Tensor strand_sums(int64_t strands, int64_t entries, int64_t slices, const at::TensorOptions& options) {
  return slices == 0 ? at::zeros({strands, entries}, options) : at::empty({strands, entries}, options);
}

/// [strands, entries] → [value_heads, entries].
inline at::Tensor sum_of_strands(const at::Tensor& sums, int64_t value_heads) {
  if (sums.size(0) == value_heads) return sums;
  return sums.view({sums.size(0) / value_heads, value_heads, sums.size(1)}).sum(0);
}

}  // namespace topomask::cuda

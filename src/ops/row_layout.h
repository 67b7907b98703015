#pragma once

#include <ATen/ATen.h>

#include <array>

// Where the rows of a result [B, H, N, C] lie: one head after the other, or, nodes first, the heads of a node side by
// side, as the layer after attention reads them.

namespace topomask::ops {

inline at::Tensor empty_rows(at::IntArrayRef sizes, const at::TensorOptions& options, bool nodes_first) {
  if (!nodes_first) return at::empty(sizes, options);
  return at::empty({sizes[0], sizes[2], sizes[1], sizes[3]}, options).transpose(1, 2);
}

inline at::Tensor empty_rows_symint(c10::SymIntArrayRef sizes, const at::TensorOptions& options, bool nodes_first) {
  if (!nodes_first) return at::empty_symint(sizes, options);
  return at::empty_symint(std::array{sizes[0], sizes[2], sizes[1], sizes[3]}, options).transpose(1, 2);
}

/// x in that layout; x itself where it is.
inline at::Tensor in_row_layout(const at::Tensor& x, bool nodes_first) {
  return nodes_first ? x.transpose(1, 2).contiguous().transpose(1, 2) : x.contiguous();
}

}  // namespace topomask::ops

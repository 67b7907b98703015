#pragma once

#include <ATen/core/Tensor.h>

#include "masks/forest/structure/block_kernel.h"
#include "masks/forest/structure/decomposition.h"

namespace topomask {

/// Rows [B, H, N, C] between the order of nodes and that of positions, and the near pairs of a decomposition on them.
class Positions {
 public:
  explicit Positions(const Decomposition& decomposition);

  at::Tensor from_nodes(const at::Tensor& x) const { return x.index_select(2, order_); }
  at::Tensor to_nodes(const at::Tensor& y) const { return y.index_select(2, inverse_); }

  /// Σ_j values(i, j) x_j over near pairs; values [1 or H, near], x by position. Every row is written.
  at::Tensor near_products(const at::Tensor& values, const at::Tensor& x) const;
  /// ⟨g_i, x_j⟩ for near pairs, summed over the batch, and over heads where `heads` is 1: float64 [heads, near].
  at::Tensor near_dots(const at::Tensor& g, const at::Tensor& x, int64_t heads) const;

 private:
  const Decomposition& decomposition_;
  at::Tensor order_, inverse_;
};

}  // namespace topomask

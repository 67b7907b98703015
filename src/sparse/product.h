#pragma once

#include <ATen/ATen.h>

#include "ops/sparse_product/op.h"
#include "topomask/sparse.h"

namespace topomask {

// Products of two sparse matrices over a pattern made beforehand (SparsePattern::product): ops/sparse_product on
// matrices.

/// What a scattered update costs in comparison with the planner's multiply-add, a pass over memory. Measured.
inline constexpr double kScatteredUpdate = 4;

/// A·Bᵀ at the entries of `out` [rows of A, rows of B]. Values [entries] or [H, entries], the same for both.
inline at::Tensor sparse_product(const SparseMatrix& a, const SparseMatrix& b, const SparsePattern& out) {
  const at::Tensor values = ops::sparse_product::multiply(at::atleast_2d(a.values), at::atleast_2d(b.values),
                                                          a.pattern->tensors(), b.pattern->tensors(), out.tensors());
  return a.values.dim() == 1 ? values.squeeze(0) : values;
}

/// A·Aᵀ at the entries of `out`, which must be symmetric: one pass back in place of two.
inline at::Tensor sparse_gram(const SparseMatrix& a, const SparsePattern& out) {
  const at::Tensor values = ops::sparse_product::gram(at::atleast_2d(a.values), a.pattern->tensors(), out.tensors());
  return a.values.dim() == 1 ? values.squeeze(0) : values;
}

}  // namespace topomask

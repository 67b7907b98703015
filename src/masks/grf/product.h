#pragma once

#include "topomask/sparse.h"

namespace topomask {

// Products of two sparse matrices over a pattern made beforehand (product_pattern), as registered operators: autograd,
// tracing and Python see them. Differentiable once, in the values; no atomics, the same for any number of threads.

/// What a scattered update costs beside the planner's multiply-add, a pass over memory. Measured.
inline constexpr double kScatteredUpdate = 4;

/// A·Bᵀ at the entries of `out` [rows of A, rows of B]. Values [entries] or [H, entries], the same for both. Cost, also
/// of each gradient: Σ over the entries (i, c) of A of the entries of column c of B, for each head.
at::Tensor sparse_product(const SparseMatrix& a, const SparseMatrix& b, const SparsePattern& out);

/// A·Aᵀ at the entries of `out`, which must be symmetric: one pass back in place of two.
at::Tensor sparse_gram(const SparseMatrix& a, const SparsePattern& out);

}  // namespace topomask

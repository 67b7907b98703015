#pragma once

#include "topomask/sparse.h"

namespace topomask {

/// The place of entry (i, i) of a square pattern that has them all: int64 [N].
at::Tensor diagonal_places(const SparsePattern& pattern);

/// [A, diag(d)] for A over a pattern: as many more columns as rows.
class AppendedDiagonal {
 public:
  explicit AppendedDiagonal(const SparsePattern& pattern);

  /// values [entries] or [H, entries], d [N] or [H, N]; differentiable.
  SparseMatrix operator()(const at::Tensor& values, const at::Tensor& d) const;

 private:
  PatternPtr pattern_;
  at::Tensor source_;  // of each entry, in (values, d)
};

}  // namespace topomask

#pragma once

#include <ATen/core/Tensor.h>

#include <mutex>
#include <vector>

#include "topomask/sparse.h"

namespace topomask {

/// The frame put around a sparse matrix: `rows` new rows above it and `cols` new columns before it. Every stored entry
/// of the frame is 1: the new rows hold columns 0 … full_columns−1, the old rows begin with the columns `before`.
struct Border {
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t full_columns = 0;
  std::vector<int32_t> before;
};

/// A bordered pattern, kept while the inner pattern stays the same.
class BorderedPattern {
 public:
  /// Differentiable in the values of the inner matrix; the pattern is built on the first call.
  SparseMatrix extend(const SparseMatrix& inner, const Border& border) const;

 private:
  mutable std::mutex mutex_;
  mutable PatternPtr inner_;
  mutable PatternPtr pattern_;
  mutable at::Tensor places_;  // int64 [inner entries]: where each inner entry went
};

/// Two features before those of a dense factor [N, r] or [H, N, r]: values `token` in `tokens` new rows, `node` in the
/// others.
at::Tensor bordered_dense(const at::Tensor& factor, int64_t tokens, std::vector<double> token,
                          std::vector<double> node);

}  // namespace topomask

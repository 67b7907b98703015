#pragma once

#include <ATen/core/Tensor.h>

#include "ops/fused_attention/tile_mask.h"

namespace topomask {

/// How rows of attention follow from rows of M.
struct RowFormula {
  Weighting weighting = Weighting::kernel;
  double scale = 1;  ///< of the scores; softmax alone
  double eps = 1e-6;
};

/// Rows of attention by tensor operations, from whole rows of M: q [B, H, R, m], k [B, H, N, m], v [B, H, N, d] and M
/// [R, N] or [H, R, N] in the accumulation type. The dense route has all rows, R = N; the route strips some at a time.
/// On the CPU the same for any number of threads where R > 1 or N is small. Differentiable in all four.
at::Tensor attend_rows(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
                       const RowFormula& formula);

}  // namespace topomask

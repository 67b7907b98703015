#pragma once

#include <ATen/core/Tensor.h>

#include "topomask/mask.h"

namespace topomask {

/// Kernel attention with its shapes settled: features q, k [B, H, N, m] and values v [B, H, N, d] of one dtype, H the
/// mask's; for the sparse and fused routes any H where the mask has one head.
struct Problem {
  at::Tensor q;
  at::Tensor k;
  at::Tensor v;
  MaskPtr mask;
  double eps = 1e-6;
  double room = 0;           ///< bytes that the route strips may take for the sparse form of the mask
  bool nodes_first = false;  ///< for the sparse and fused routes: out is [B, N, H, d] in memory
};

// Each route returns [B, H, N, d] in the dtype of v, the same to rounding, differentiable in q, k, v and the mask's
// parameters.
at::Tensor dense_route(const Problem& problem);
at::Tensor sparse_route(const Problem& problem);
at::Tensor features_route(const Problem& problem);
at::Tensor operator_route(const Problem& problem);
at::Tensor fused_route(const Problem& problem);
at::Tensor strips_route(const Problem& problem);

/// [v, 1] [B, H, N, d+1]: one product then gives numerator and denominator. Followed by columns of zeros up to a
/// multiple of `unit`.
at::Tensor with_ones_column(const at::Tensor& v, int64_t unit = 1);

/// ops::normalise of a product with with_ones_column(problem.v), in the dtype of problem.v.
at::Tensor normalise_joint(const at::Tensor& product, const Problem& problem);

}  // namespace topomask

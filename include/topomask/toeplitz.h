#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "topomask/export.h"
#include "topomask/mask.h"

namespace TOPOMASK_API topomask {

/// Which nodes of a grid a node may attend to.
enum class Causality {
  none,       ///< all
  row_major,  ///< those at or before it in row-major order: j ≤ i. On a sequence, the usual causal mask
  first_axis,  ///< those whose first coordinate is at most its own: j₁ ≤ i₁. Time × space: the past and the present
};

struct ToeplitzOptions {
  bool logarithmic = false;  ///< the parameter holds log g or log f, so that the mask is positive whatever is learned
  Causality causality = Causality::none;
};

/// M_ij = g(i − j) on a grid of any dimension, i and j the grid coordinates of the nodes, which are in row-major order:
/// a Toeplitz matrix on a sequence (dims {N}), d-level block Toeplitz on a grid of d axes.
///
/// offsets, float32 or float64, finite, learnable: [2n₁−1, …, 2n_d−1], or [H, 2n₁−1, …, 2n_d−1] for a mask per head.
/// The value for the offset δ = i − j stands at index δ_s + n_s − 1 of axis s.
///
/// M·x: FFTs of P = ∏ L_s points per column, L_s ≥ 2n_s − 1 a product of 2, 3, 5 and 7; a matrix product instead while
/// N is some hundreds. Mᵀ has the offsets reversed. The gradient of the offsets, Σ_{i−j=δ} G_i·X_j, is a correlation by
/// the same FFTs. Attention: N²(m+d) in tiles, with O(N) memory, up to some ten thousand nodes, M·x beyond.
MaskPtr toeplitz_mask(const std::vector<int64_t>& dims, const at::Tensor& offsets, const ToeplitzOptions& options = {});

/// M_ij = f(‖i − j‖₁), any function of the shortest-path distance on the grid. f [K] or [H, K], learnable, with a value
/// for each distance 0 … K−1 = Σ(n_s − 1). Otherwise as toeplitz_mask.
MaskPtr toeplitz_distance_mask(const std::vector<int64_t>& dims, const at::Tensor& f,
                               const ToeplitzOptions& options = {});

}  // namespace topomask

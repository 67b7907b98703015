#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "topomask/diffusion.h"
#include "topomask/toeplitz.h"
#include "topomask/walks.h"

namespace topomask::torture {

/// A mask by its definition, dense and in double. `matrix` [N, N] or [H, N, N] is differentiable in the parameters.
/// `magnitude` bounds what a computation of M adds up to get an entry (|M| where nothing cancels), without gradient:
/// rounding errors are judged against it. Where a method is accurate in norm only (FFT, Chebyshev), it is constant.
struct MaskValue {
  at::Tensor matrix;
  at::Tensor magnitude;
};

// Nothing here calls the library: each function spells out a definition with plain tensor operations.

/// Σ_k α_k W^k by dense powers; alpha [K] or [H, K].
MaskValue power_series(const at::Tensor& w, const at::Tensor& alpha);

/// M_ij = g(i − j) by looking every pair up; offsets [2n−1, …] or [H, …]. By distance: f(‖i − j‖₁), f [K] or [H, K].
MaskValue block_toeplitz(const std::vector<int64_t>& dims, const at::Tensor& parameter, bool by_distance,
                         const ToeplitzOptions& options);

/// Distances in a rooted forest, differentiable in the lengths [N] of the edges to the parents, and which pairs are in
/// one tree (float64 0/1).
struct TreeDistances {
  at::Tensor distance, same_tree;
};
TreeDistances tree_distances(const at::Tensor& parent, const at::Tensor& lengths);

/// exp(−λT), T from dense weights; lambda [] or [H].
MaskValue diffusion(const at::Tensor& weights, const at::Tensor& lambda, Generator generator);
at::Tensor generator_of(const at::Tensor& weights, Generator generator);
/// exp(λUVᵀ), the exponential of an N×N matrix.
MaskValue low_rank_diffusion(const at::Tensor& u, const at::Tensor& v, const at::Tensor& lambda);
/// ((1 + e^{−2λ})/2)^d · tanh(λ)^Hamming(i, j).
MaskValue hypercube(int64_t dimensions, const at::Tensor& lambda);

/// R_t as dense matrices from the triples of a table, [hops, N, N]: loads/n, or counts/n.
at::Tensor walk_matrices(const WalkTable& walks, bool counts);
/// Σ_t f_t R_t, f [K] or [H, K].
MaskValue walk_sum(const at::Tensor& matrices, const at::Tensor& f);
/// LRᵀ, with magnitudes |L||R|ᵀ.
MaskValue product_of(const MaskValue& left, const MaskValue& right);
/// G_i as dense matrices [N, hops, hops] from a table with group products.
at::Tensor group_products(const WalkTable& walks, int64_t hops);

/// Hops between all pairs along the edges, by relaxing all edges until nothing changes: int64 [N, N], −1 without path.
at::Tensor hop_distances(const at::Tensor& edges);

}  // namespace topomask::torture

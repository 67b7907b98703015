#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "topomask/export.h"
#include "topomask/graph.h"
#include "topomask/mask.h"

namespace TOPOMASK_API topomask {

// Encodings of positions and of a graph's structure, as masks. Parameters are float32 or float64 and must be
// finite when they are given, which is checked where they are on the CPU; the mask computes in their dtype.

struct StochasticPositionalOptions {
  int64_t realisations = 64;  ///< r ≥ 0, 2K·H·r ≤ 2⁴⁰; 0: the expectation itself, which has rank 2K
  uint64_t seed = 0;
};

/// Stochastic positional encoding over a sequence of N positions (sineSPE, Liutkus et al. 2021): random features whose
/// product is on average a stationary kernel,
///
///   E[M_ij] = Σ_k a_k² cos(ω_k(i − j) + θ_k),
///   M = Φ₁Φ₂ᵀ,     Φ₁ = Ω(θ)·diag(a, a)·Z/√r,     Φ₂ = Ω(0)·diag(a, a)·Z/√r,
///
/// with row i of Ω(θ) = cos(ω_k i + θ_k), sin(ω_k i + θ_k) for k < K, and Z [H, 2K, r] standard normal from torch's CPU
/// generator under `seed`. frequencies ω in radians per position, amplitudes a and phases θ (left out: none, and M is
/// symmetric), all [K], or [H, K] for a kernel per head; learnable. An entry's standard error is about Σ a_k²/√r.
///
/// M·x: 2N·r multiply-adds per column, after 4N·K·r for the features. With realisations = 0 there is no noise and r is
/// 2K: the better choice wherever 2K ≤ r. The mask is signed; a frequency 0 adds a constant.
MaskPtr stochastic_positional_mask(int64_t nodes, const at::Tensor& frequencies, const at::Tensor& amplitudes,
                                   const at::Tensor& phases = {}, const StochasticPositionalOptions& options = {});

struct CentralityOptions {
  bool logits = false;  ///< the parameter holds logit z, so that z stays in (0, 1) whatever is learned
};

/// M_ij = sin(π/4·(z(deg_i) + z(deg_j))), deg the degree (out-degree where directed): attention by centrality, positive
/// for z in (0, 1). z [K], or [H, K] for one per head, learnable, for the degrees 0 … K−1; higher ones share the last.
///
/// sin(a + b) = sin a·cos b + cos a·sin b has rank 2: 4N multiply-adds per column.
MaskPtr centrality_mask(const Graph& graph, const at::Tensor& z, const CentralityOptions& options = {});

/// M = Φ₁Φ₂ᵀ with features that do not depend on a graph and are themselves the parameters: the ablation of Reid et al.
/// 2024. left [N, r] or [H, N, r]; right like it, or left out: ΦΦᵀ. 2N·r multiply-adds per column.
MaskPtr free_features_mask(const at::Tensor& left, const at::Tensor& right = {});

struct ShortestPathOptions {
  /// >= 0. Graphs of more pairs of nodes are refused: a table of distances has N² entries.
  int64_t max_entries = int64_t{1} << 26;
};

/// Distances in hops between all pairs of nodes, along the edges' direction: int32 [N, N], −1 where there is no path.
/// Weights play no part. Breadth-first searches from 64 sources at a time, on all threads: O(N·(N + E)) at worst.
at::Tensor shortest_paths(const Graph& graph, const ShortestPathOptions& options = {});

/// M_ij = b(distance from i to j): the spatial bias of Graphormer (Ying et al. 2021), for softmax_attention with
/// SoftmaxMask::additive. bias [K + 1], or [H, K + 1], learnable: b_0 … b_{K−1} for the distances, longer ones sharing
/// b_{K−1}, and b_K for pairs without a path; 1 ≤ K < 32768. A bias of some −1e4 excludes a pair.
///
/// This takes O(N²): 2 bytes per pair are kept, N² multiply-adds per column.
MaskPtr shortest_path_mask(const Graph& graph, const at::Tensor& bias, const ShortestPathOptions& options = {});

/// The same from distances known already, as shortest_paths gives them; any negative one is a pair without a path.
MaskPtr shortest_path_mask(const at::Tensor& distances, const at::Tensor& bias);

/// What Graphormer adds to the node features: row deg of `table` [max_degree + 1, C] for each node, higher degrees
/// sharing the last row; [N, C], differentiable. For a directed graph `table` is for out-degrees and `in_table` [·, C],
/// where given, is added for in-degrees.
at::Tensor degree_embedding(const Graph& graph, const at::Tensor& table, const at::Tensor& in_table = {});

}  // namespace topomask

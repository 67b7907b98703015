#pragma once

#include <ATen/core/Tensor.h>

#include "topomask/graph.h"

namespace topomask {

/// The explicit form of a power series: every (i, j) within K−1 hops as one pattern, and (W^k)_ij there for each k.
struct HopBasis {
  PatternPtr pattern;
  at::Tensor powers;  ///< [K, entries], the dtype of the weights; a series is alpha·powers
};

/// (W^k)_e for k < terms at each entry e of hops = hop_pattern(edges, terms), [terms, entries], on the CPU.
/// Differentiable once, in `weights` [entries of edges]. Σ_k |ball_k|·degree operations per row, and about three times
/// as many for the gradient, which needs as much memory again as the powers.
at::Tensor hop_powers(const SparsePattern& edges, const SparsePattern& hops, const at::Tensor& weights, int64_t terms);

/// Both, for the weights of a graph on the CPU.
HopBasis build_hop_basis(const Graph& graph, int64_t terms);

}  // namespace topomask

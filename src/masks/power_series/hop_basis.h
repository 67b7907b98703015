#pragma once

#include <ATen/core/Tensor.h>

#include "topomask/graph.h"

namespace topomask {

/// The explicit form of a power series: every (i, j) within K−1 hops as one pattern, and (W^k)_ij there for each k.
struct HopBasis {
  PatternPtr pattern;
  at::Tensor powers;  ///< [K, entries], the dtype of the weights; a series is alpha·powers
};

/// Entries of the pattern, extrapolated from the balls of a few nodes: for the planner, before anything is built.
/// A ball that would take more than `limit`/N nodes counts as that many.
double estimate_hop_entries(const Graph& graph, int64_t terms, int64_t limit);

/// Where some W^k with k < terms can be nonzero, whatever the weights. On the CPU, row by row in parallel:
/// |ball|·degree operations per row, O(N) workspace per thread.
PatternPtr hop_pattern(const SparsePattern& edges, int64_t terms);

/// (W^k)_e for k < terms at each entry e of hop_pattern(edges, terms), [terms, entries], on the CPU. Differentiable
/// once, in `weights` [entries of edges]. Σ_k |ball_k|·degree operations per row, and about three times as many for the
/// gradient, which needs as much memory again as the powers.
at::Tensor hop_powers(const SparsePattern& edges, const SparsePattern& hops, const at::Tensor& weights, int64_t terms);

/// Both, for the weights of a graph on the CPU.
HopBasis build_hop_basis(const Graph& graph, int64_t terms);

}  // namespace topomask

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

/// Builds both, row by row in parallel: Σ_k |ball_k|·degree operations per row, O(N) workspace per thread.
HopBasis build_hop_basis(const Graph& graph, int64_t terms);

}  // namespace topomask

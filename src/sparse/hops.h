#pragma once

#include "core/internal_api.h"
#include "topomask/sparse.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// What a new pattern keeps for the functions below.
std::shared_ptr<HopCache> make_hop_cache();

/// Where some W^k with k < terms can be nonzero, for a square W over `edges`: the nodes within terms − 1 hops of each.
/// Made on the CPU on first use, |ball|·degree operations per row and O(N) workspace per thread, and kept as long as
/// `edges`, so that all series over one graph share it, whatever their weights and coefficients.
PatternPtr hop_pattern(const SparsePattern& edges, int64_t terms);

/// Entries of hop_pattern, extrapolated from the balls of a few nodes: for the planner, before anything is built.
/// A ball is not followed past ⌊limit/N⌋ + 1 nodes: where all are that large, the estimate exceeds the limit. The last
/// answer is kept, so that a pattern on a GPU is copied to the CPU once.
double estimate_hop_entries(const SparsePattern& edges, int64_t terms, int64_t limit);

}  // namespace topomask

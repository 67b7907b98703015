#pragma once

#include <cstdint>
#include <vector>

#include "core/internal_api.h"
#include "topomask/data/graph_set.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// The nodes that a step sees of a large graph (Hamilton, Ying and Leskovec, NeurIPS 2017): `seeds`, and at each of
/// `hops` hops up to `fanout` neighbours, drawn without replacement, of each node that is new. Ascending, distinct. A
/// function of (seed, draw) and the arguments, for any number of threads.
std::vector<int64_t> sample_surroundings(const Graph& graph, at::IntArrayRef seeds, int64_t hops, int64_t fanout,
                                         uint64_t seed, uint32_t draw);

/// One graph of the nodes at these places of a set, ascending, and all edges between them. A parent that is left out
/// makes its children roots.
GraphSet induced_set(const GraphSet& set, at::IntArrayRef nodes);

}  // namespace topomask

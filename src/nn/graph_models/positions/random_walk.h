#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/internal_api.h"
#include "topomask/graph.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// (P^t)_ii for t = 1 … steps, P = D^{-1}A of the edges alike: the probabilities that a random walk from a node is back
/// after t steps (Dwivedi et al. 2022), exact: [N, steps], of the dtype of the graph's weights. 0 at isolated nodes.
///
/// Each node spreads its own walk by sparse steps. On undirected graphs half as many suffice, since with W =
/// D^{-1/2}AD^{-1/2} (P^{s+t})_ii = ⟨W^s e_i, W^t e_i⟩: the edges inside a ball of steps/2 hops for each step. Memory
/// is the result and O(N) for each thread.
at::Tensor return_probabilities(const Graph& graph, int64_t steps);

}  // namespace topomask

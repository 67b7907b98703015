#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "topomask/forest.h"

namespace topomask::testing {

/// Parents of some trees that a forest must get right.
at::Tensor path_parent(int64_t nodes);
at::Tensor star_parent(int64_t nodes);
at::Tensor random_parent(int64_t nodes, uint64_t seed);        ///< random recursive: each node under any earlier one
at::Tensor caterpillar_parent(int64_t spine);                  ///< a path with a leaf at each node
at::Tensor joined(const std::vector<at::Tensor>& parents);     ///< several forests side by side
at::Tensor shuffled(const at::Tensor& parent, uint64_t seed);  ///< the same forest with other node numbers

struct NamedParent {
  std::string name;
  at::Tensor parent;
};
/// Shapes and sizes: empty, single nodes, stars, paths, caterpillars, random, several trees.
std::vector<NamedParent> parents();

/// All distances, the plain way, differentiable in the weights: [N, N] and where there is a path at all.
struct AllPairs {
  at::Tensor distance;
  at::Tensor same_tree;  ///< float64 0 or 1
};
AllPairs all_pairs(const at::Tensor& parent, const at::Tensor& weights);

/// Lengths in 0.2 … 2, or integers 0 … most.
at::Tensor real_weights(int64_t nodes, uint64_t seed);
at::Tensor integer_weights(int64_t nodes, int64_t most, uint64_t seed);

}  // namespace topomask::testing

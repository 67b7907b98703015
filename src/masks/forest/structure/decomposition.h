#pragma once

#include <cstdint>
#include <vector>

#include "core/internal_api.h"
#include "masks/forest/structure/rooted_order.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// A connected part of a tree, divided at its centroid into the centroid itself and the components that are left
/// without it, each at most half as large: its groups. Pairs of nodes in different groups meet here, at
/// dist(i, j) = depth(i) + depth(j), the distances to the centroid.
struct Component {
  int32_t first;  ///< position of the centroid; the component is the positions first … first+size−1
  int32_t size;
  int32_t level;         ///< how many components it lies in
  int32_t end;           ///< the components inside it follow it, up to this one
  int64_t entry;         ///< its depths are depth[entry] … depth[entry+size−1], by position
  int64_t groups_begin;  ///< group g is the positions groups[groups_begin+g] … groups[groups_begin+g+1]−1; group 0: the
                         ///< centroid
  int32_t groups;
};

/// A component too small to be divided; or a centroid, alone.
struct Block {
  int32_t first;
  int32_t size;
  int64_t entry;  ///< its size × size distances are near[entry] …
};

/// All pairs of a forest: far ones meet in one component, near ones lie in one block. Nodes are renumbered by position,
/// so that components, groups and blocks are ranges; components are in preorder, blocks cover the positions in order.
struct Decomposition {
  std::vector<int32_t> order;  ///< the node at each position
  std::vector<Component> components;
  std::vector<int32_t> groups;
  std::vector<double> depth;
  std::vector<Block> blocks;
  std::vector<double> near;
};

/// weights [N] by node. O(N log N) time and memory, one scan of a component per level: no recursion, no search.
Decomposition decompose(const RootedOrder& rooted, const double* weights);

/// The components in an order for threads: level by level those that are large, then tasks, runs of components that fit
/// a cache and lie wholly in one task with all they contain.
struct Schedule {
  struct Task {
    int32_t begin, end;  ///< components
    int64_t nodes;       ///< of all of them
  };
  std::vector<std::vector<Task>> steps;  ///< one after the other; tasks of one step do not meet
};

/// Components of more than `largest` nodes, and those `forced`, come by level.
Schedule make_schedule(const Decomposition& decomposition, int64_t largest, const std::vector<bool>& forced = {});

}  // namespace topomask

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/internal_api.h"
#include "masks/forest/structure/rooted_order.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// A forest as paths, for passes on a GPU: every node goes on to its child with the most nodes below it, the heavy one,
/// and the other children begin paths of their own, a level further down. No node is more than log₂N levels down, so
/// that a pass is as many launches, however deep the trees are. int32 tensors, on the CPU.
struct HeavyPaths {
  explicit HeavyPaths(const RootedOrder& order);

  at::Tensor nodes;             ///< [N]: path after path, from the top down; paths by level
  at::Tensor offsets;           ///< [paths + 1]: where each path begins
  at::Tensor parent;            ///< [N] by node, −1 at roots
  at::Tensor heavy;             ///< [N] by node, −1 at leaves
  at::Tensor light_offsets;     ///< [N + 1]
  at::Tensor light_children;    ///< by parent
  std::vector<int64_t> levels;  ///< the first path of each level, and the number of paths
};

}  // namespace topomask

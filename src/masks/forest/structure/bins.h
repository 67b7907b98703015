#pragma once

#include <cstdint>
#include <vector>

#include "core/internal_api.h"
#include "masks/forest/structure/decomposition.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// The depths of a decomposition as bins, where they are integers: the nodes of one group at one depth form a bin, and
/// so do, over all groups, the nodes of a component at one depth. A product with f then sees bins, not nodes.
struct Bins {
  std::vector<int32_t> bin;    ///< parallel to Decomposition::depth: the node's bin, counted from the component's first
  std::vector<int32_t> depth;  ///< of each bin; ascending inside a group
  std::vector<int32_t> total;  ///< of each bin: the bin over all groups at its depth, counted likewise
  std::vector<int32_t> total_depth;  ///< of each bin over all groups; ascending inside a component
  std::vector<int64_t> first;        ///< per component, and one more: its bins are first[c] … first[c+1]−1
  std::vector<int64_t> total_first;  ///< per component, and one more
  std::vector<int32_t> group_first;  ///< parallel to Decomposition::groups: the group's first bin, counted likewise
};

/// Depths must be integers in 0 … 2³⁰. O(N log N) where lengths are bounded, a log more where not.
Bins make_bins(const Decomposition& decomposition);

}  // namespace topomask

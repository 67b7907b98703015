#pragma once

#include <vector>

#include "topomask/export.h"
#include "topomask/mask.h"

namespace TOPOMASK_API topomask {

/// Masks M_1 … M_H of one head each as one mask with a matrix per head: for heads that differ in more than their
/// parameters, in their walks, their graphs or their families. They have one size N, and one dtype and device where
/// they have any; their parameters are those of M_1, then of M_2, and so on. A list of one mask is that mask.
///
/// M·x is each mask's own product: the sum of their costs. The routes dense and strips are always there; sparse, where
/// every mask offers its nonzeros, over the union of their patterns, which is made once, on first use, and shared by
/// the masks that `rebuild` makes; fused, where all masks offer tiles of one kind over one structure. A mask whose
/// family takes parameters per head over one structure is faster than this.
MaskPtr per_head_mask(const std::vector<MaskPtr>& masks);

}  // namespace topomask

#pragma once

#include <vector>

#include "topomask/mask.h"

namespace topomask {

/// Masks of one head each, over as many nodes, as one mask with a matrix per head. Routes dense, operator and, where
/// every one offers its nonzeros, sparse, over the union of their patterns, which is made once.
MaskPtr heads_mask(const std::vector<MaskPtr>& masks);

}  // namespace topomask

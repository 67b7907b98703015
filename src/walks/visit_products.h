#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/internal_api.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// Group products as WalkTable has them, on any device: of `rows` rows of `walkers` walks each.
struct VisitProducts {
  at::Tensor offsets;  ///< int64 [rows + 1]
  at::Tensor hops;     ///< int16 [P, 2]: t, u
  at::Tensor values;   ///< [P]
};

/// From the visits of the walks, row by row and by walker, each walk from its start at hop 0 on: columns int32, hops
/// int64 and loads [V]. `group` walkers are one independent group. Tensor operations only, sorts and sums in a fixed
/// order; how many entries there are is read back. O(V) memory, and as much for every pair of hops at which one group
/// is at one node.
VisitProducts visit_products(const at::Tensor& columns, const at::Tensor& hops, const at::Tensor& loads, int64_t rows,
                             int64_t walkers, int64_t group);

}  // namespace topomask

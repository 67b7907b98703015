#pragma once

#include <cstdint>
#include <vector>

#include "core/internal_api.h"

namespace TOPOMASK_INTERNAL_API topomask {
namespace ops::nearest_neighbours {

/// Points with those at the same place listed once. Padding and invalid pixels make clouds with thousands of equal
/// points: a k-d tree over the places stays shallow, and a query never walks through a heap of ties.
struct DistinctPoints {
  int64_t dims = 0;
  std::vector<double> places;  ///< [distinct, dims], in the order of first appearance
  /// [distinct + 1]: place p holds the points members[offsets[p]] … members[offsets[p+1]-1].
  std::vector<int32_t> offsets;
  std::vector<int32_t> members;  ///< [N], ascending inside a place

  int64_t count() const { return static_cast<int64_t>(offsets.size()) - 1; }
};

/// points [count, dims], row-major, without NaN; 0 and −0 are equal. O(count·dims).
DistinctPoints distinct_points(const double* points, int64_t count, int64_t dims);

}  // namespace ops::nearest_neighbours
}  // namespace topomask

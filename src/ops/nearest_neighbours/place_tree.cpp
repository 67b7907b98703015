#include "ops/nearest_neighbours/place_tree.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace topomask::ops::nearest_neighbours {

PlaceTree::PlaceTree(const DistinctPoints& points)
    : points_(points),
      order_(static_cast<size_t>(points.count())),
      low_(points.dims, std::numeric_limits<double>::infinity()),
      high_(points.dims, -std::numeric_limits<double>::infinity()) {
  std::iota(order_.begin(), order_.end(), 0u);
  for (uint32_t place = 0; place < order_.size(); ++place) {
    for (int64_t axis = 0; axis < points.dims; ++axis) {
      low_[axis] = std::min(low_[axis], coordinate(place, axis));
      high_[axis] = std::max(high_[axis], coordinate(place, axis));
    }
  }
  nodes_.reserve(order_.size() / kLeafPlaces * 4 + 1);
  if (!order_.empty()) build(0, static_cast<uint32_t>(order_.size()));
}

uint32_t PlaceTree::build(uint32_t begin, uint32_t end) {
  const auto at = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back({.begin = begin, .end = end});
  if (end - begin <= kLeafPlaces) return at;
  // Along the axis on which the places are spread most; they are distinct, so on some axis they are.
  int64_t widest = 0;
  double most = -1;
  for (int64_t axis = 0; axis < points_.dims; ++axis) {
    double low = coordinate(order_[begin], axis), high = low;
    for (uint32_t p = begin + 1; p < end; ++p) {
      low = std::min(low, coordinate(order_[p], axis));
      high = std::max(high, coordinate(order_[p], axis));
    }
    if (high - low > most) {
      most = high - low;
      widest = axis;
    }
  }
  const auto before = [&](uint32_t a, uint32_t b) { return coordinate(a, widest) < coordinate(b, widest); };
  const uint32_t middle = begin + (end - begin) / 2;
  std::nth_element(order_.begin() + begin, order_.begin() + middle, order_.begin() + end, before);
  const double left_high =
      coordinate(*std::max_element(order_.begin() + begin, order_.begin() + middle, before), widest);
  const double right_low = coordinate(order_[middle], widest);
  const uint32_t left = build(begin, middle), right = build(middle, end);
  nodes_[at] = {.begin = begin,
                .end = end,
                .left = left,
                .right = right,
                .axis = widest,
                .left_high = left_high,
                .right_low = right_low};
  return at;
}

}  // namespace topomask::ops::nearest_neighbours

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/internal_api.h"
#include "ops/nearest_neighbours/distinct_points.h"

namespace TOPOMASK_INTERNAL_API topomask {
namespace ops::nearest_neighbours {

/// A k-d tree over distinct places, for builds without nanoflann: exact, built in O(N log N·dims), and a query visits a
/// number of places that does not grow with N for points of few dimensions. It takes the same set of results as
/// nanoflann's tree and serves as many threads at once.
class PlaceTree {
 public:
  explicit PlaceTree(const DistinctPoints& points);

  /// Offers places to `nearest` by addPoint(squared distance, place) until none that is left can be within worstDist().
  template <class Nearest>
  void find(Nearest& nearest, const double* query) const {
    if (points_.count() == 0) return;
    std::vector<double> apart(points_.dims, 0.0);  // squared, from the query to the box of a node, by axis
    double sum = 0;
    for (int64_t axis = 0; axis < points_.dims; ++axis) {
      const double outside = std::max({low_[axis] - query[axis], query[axis] - high_[axis], 0.0});
      sum += apart[axis] = outside * outside;
    }
    visit(0, nearest, query, sum, apart);
  }

 private:
  static constexpr uint32_t kLeafPlaces = 10;

  /// A leaf holds the places order_[begin … end); the children of an inner node are split along `axis`.
  struct Node {
    uint32_t begin = 0, end = 0;
    uint32_t left = 0, right = 0;  ///< 0: a leaf, since the root is nobody's child
    int64_t axis = 0;
    double left_high = 0, right_low = 0;  ///< the largest coordinate of the left child, the smallest of the right one
  };

  double coordinate(uint32_t place, int64_t axis) const { return points_.places[place * points_.dims + axis]; }
  uint32_t build(uint32_t begin, uint32_t end);

  template <class Nearest>
  void visit(uint32_t at, Nearest& nearest, const double* query, double sum, std::vector<double>& apart) const {
    const Node& node = nodes_[at];
    if (node.left == 0) {
      for (uint32_t p = node.begin; p < node.end; ++p) {
        double distance = 0;
        for (int64_t axis = 0; axis < points_.dims; ++axis) {
          const double difference = query[axis] - coordinate(order_[p], axis);
          distance += difference * difference;
        }
        if (distance <= nearest.worstDist()) nearest.addPoint(distance, order_[p]);
      }
      return;
    }
    const double to_left = query[node.axis] - node.left_high, to_right = node.right_low - query[node.axis];
    const bool left_first = to_left < to_right;
    visit(left_first ? node.left : node.right, nearest, query, sum, apart);
    const double gap = left_first ? to_right : to_left, former = apart[node.axis];
    const double farther = gap > 0 ? gap * gap : 0;
    const double rest = sum - former + farther;
    if (rest > nearest.worstDist()) return;
    apart[node.axis] = farther;
    visit(left_first ? node.right : node.left, nearest, query, rest, apart);
    apart[node.axis] = former;
  }

  const DistinctPoints& points_;
  std::vector<uint32_t> order_;
  std::vector<Node> nodes_;
  std::vector<double> low_, high_;  ///< the box around all places
};

}  // namespace ops::nearest_neighbours
}  // namespace topomask

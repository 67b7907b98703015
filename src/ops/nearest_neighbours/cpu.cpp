#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/library.h>
#ifdef TOPOMASK_NANOFLANN
#include <nanoflann.hpp>
#endif

#include <algorithm>
#include <limits>

#include "core/checks.h"
#include "ops/nearest_neighbours/distinct_points.h"
#include "ops/nearest_neighbours/place_tree.h"

namespace topomask::ops::nearest_neighbours {

namespace {

#ifdef TOPOMASK_NANOFLANN
/// The interface through which nanoflann reads the points.
struct PlaceReader {
  const DistinctPoints& points;

  size_t kdtree_get_point_count() const { return points.count(); }
  double kdtree_get_pt(uint32_t place, size_t axis) const { return points.places[place * points.dims + axis]; }
  template <class Box>
  bool kdtree_get_bbox(Box&) const {
    return false;
  }
};
#endif

/// The `capacity` first points by (distance, index). The tree's own bounds carry rounding, so they are compared with a
/// worst distance a little larger than the true one, and ties reach `addPoint`, which decides exactly.
class NearestSet {
 public:
  using DistanceType = double;

  NearestSet(const DistinctPoints& points, int64_t capacity)
      : points_(points),
        capacity_(capacity),
        slack_(1 + (256 + 4 * points.dims) * std::numeric_limits<double>::epsilon()) {
    found_.reserve(capacity + 1);
  }

  void clear() { found_.clear(); }
  size_t size() const { return found_.size(); }
  bool full() const { return static_cast<int64_t>(found_.size()) == capacity_; }
  double worstDist() const {
    return full() ? found_.back().first * slack_ + std::numeric_limits<double>::denorm_min()
                  : std::numeric_limits<double>::infinity();
  }
  bool addPoint(double distance, uint32_t place) {
    for (int32_t m = points_.offsets[place]; m < points_.offsets[place + 1]; ++m) {
      const std::pair<double, int32_t> candidate{distance, points_.members[m]};
      if (full() && found_.back() < candidate) break;  // members ascend: the rest is no better
      found_.insert(std::upper_bound(found_.begin(), found_.end(), candidate), candidate);
      if (static_cast<int64_t>(found_.size()) > capacity_) found_.pop_back();
    }
    return true;
  }
  const std::vector<std::pair<double, int32_t>>& found() const { return found_; }

 private:
  const DistinctPoints& points_;
  int64_t capacity_;
  double slack_;
  std::vector<std::pair<double, int32_t>> found_;
};

/// Writes the k nearest of every point, nearest first, into neighbours [N, k]. Dims −1: known at run time only.
template <int Dims>
void search(const DistinctPoints& points, int64_t k, int32_t* neighbours) {
#ifdef TOPOMASK_NANOFLANN
  using Metric = nanoflann::L2_Adaptor<double, PlaceReader, double, uint32_t>;
  using Tree = nanoflann::KDTreeSingleIndexAdaptor<Metric, PlaceReader, Dims, uint32_t>;
  const PlaceReader reader{points};
  const Tree tree(static_cast<int>(points.dims), reader, nanoflann::KDTreeSingleIndexAdaptorParams(10));
  const auto find = [&](NearestSet& nearest, const double* query) { tree.findNeighbors(nearest, query, {}); };
#else
  const PlaceTree tree(points);
  const auto find = [&](NearestSet& nearest, const double* query) { tree.find(nearest, query); };
#endif
  at::parallel_for(0, points.count(), 256, [&](int64_t begin, int64_t end) {
    NearestSet nearest(points, k + 1);  // one more: the point itself is among them
    for (int64_t place = begin; place < end; ++place) {
      nearest.clear();
      find(nearest, points.places.data() + place * points.dims);
      for (int32_t m = points.offsets[place]; m < points.offsets[place + 1]; ++m) {
        int32_t* out = neighbours + points.members[m] * k;
        int64_t written = 0;
        for (const auto& [distance, index] : nearest.found()) {
          if (index != points.members[m] && written < k) out[written++] = index;
        }
      }
    }
  });
}

at::Tensor nearest_neighbours_cpu(const at::Tensor& given, int64_t k) {
  const at::Tensor points = given.detach().to(at::kDouble).contiguous();
  const DistinctPoints distinct = distinct_points(points.const_data_ptr<double>(), points.size(0), points.size(1));
  at::Tensor neighbours = at::empty({points.size(0), k}, at::kInt);
  int32_t* out = neighbours.mutable_data_ptr<int32_t>();
  switch (points.size(1)) {
    case 2:
      search<2>(distinct, k, out);
      break;
    case 3:
      search<3>(distinct, k, out);
      break;
    default:
      search<-1>(distinct, k, out);
  }
  return neighbours;
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CPU, m) {
  m.impl("nearest_neighbours", nearest_neighbours_cpu);
}

}  // namespace topomask::ops::nearest_neighbours

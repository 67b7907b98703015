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
#include "ops/nearest_neighbours/op.h"
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

/// Exact search in a set of distinct points. Dims −1: known at run time only.
template <int Dims>
class NearestSearch {
 public:
  explicit NearestSearch(const DistinctPoints& points)
#ifdef TOPOMASK_NANOFLANN
      : reader_{points}, tree_(static_cast<int>(points.dims), reader_, nanoflann::KDTreeSingleIndexAdaptorParams(10)) {
  }
  void find(NearestSet& nearest, const double* query) const {
    tree_.findNeighbors(nearest, query, {});
  }

 private:
  using Metric = nanoflann::L2_Adaptor<double, PlaceReader, double, uint32_t>;
  PlaceReader reader_;
  nanoflann::KDTreeSingleIndexAdaptor<Metric, PlaceReader, Dims, uint32_t> tree_;
#else
      : tree_(points) {
  }
  void find(NearestSet& nearest, const double* query) const {
    tree_.find(nearest, query);
  }

 private:
  PlaceTree tree_;
#endif
};

/// Writes the k nearest of every point, nearest first, into neighbours [N, k].
template <int Dims>
void search(const DistinctPoints& points, int64_t k, int32_t* neighbours) {
  const NearestSearch<Dims> tree(points);
  at::parallel_for(0, points.count(), 256, [&](int64_t begin, int64_t end) {
    NearestSet nearest(points, k + 1);  // one more: the point itself is among them
    for (int64_t place = begin; place < end; ++place) {
      nearest.clear();
      tree.find(nearest, points.places.data() + place * points.dims);
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

/// Writes the k nearest of every query, nearest first, into found [count, k].
template <int Dims>
void search_queries(const DistinctPoints& points, const double* queries, int64_t count, int64_t k, int32_t* found) {
  const NearestSearch<Dims> tree(points);
  at::parallel_for(0, count, 256, [&](int64_t begin, int64_t end) {
    NearestSet nearest(points, k);
    for (int64_t q = begin; q < end; ++q) {
      nearest.clear();
      tree.find(nearest, queries + q * points.dims);
      int32_t* out = found + q * k;
      for (const auto& [distance, index] : nearest.found()) *out++ = index;
    }
  });
}

/// f.operator()<Dims>() with the dimensions that have a search of their own.
template <class F>
void with_dims(int64_t dims, const F& f) {
  switch (dims) {
    case 2:
      return f.template operator()<2>();
    case 3:
      return f.template operator()<3>();
    default:
      return f.template operator()<-1>();
  }
}

at::Tensor nearest_neighbours_cpu(const at::Tensor& given, int64_t k) {
  const at::Tensor points = given.detach().to(at::kDouble).contiguous();
  const DistinctPoints distinct = distinct_points(points.const_data_ptr<double>(), points.size(0), points.size(1));
  at::Tensor neighbours = at::empty({points.size(0), k}, at::kInt);
  int32_t* out = neighbours.mutable_data_ptr<int32_t>();
  with_dims(points.size(1), [&]<int Dims>() { search<Dims>(distinct, k, out); });
  return neighbours;
}

at::Tensor nearest_points_cpu(const at::Tensor& given_queries, const at::Tensor& given_points, int64_t k,
                              bool exclude_self) {
  check_clouds(given_queries, given_points, k, exclude_self);
  const at::Tensor points = given_points.detach().to(at::kDouble).contiguous();
  const at::Tensor queries = given_queries.detach().to(at::kDouble).contiguous();
  for (const at::Tensor& x : {points, queries}) {  // a tree over NaN has no order
    TORCH_CHECK(x.isfinite().all().item<bool>(), "nearest_points: points and queries must be finite, got NaN or inf");
  }
  const int64_t count = queries.size(1), dims = points.size(2);
  at::Tensor found = at::empty({points.size(0), count, k}, at::kInt);
  for (int64_t cloud = 0; cloud < points.size(0) && count > 0; ++cloud) {
    const DistinctPoints distinct =
        distinct_points(points.const_data_ptr<double>() + cloud * points.size(1) * dims, points.size(1), dims);
    const double* query = queries.const_data_ptr<double>() + cloud * count * dims;
    int32_t* out = found.mutable_data_ptr<int32_t>() + cloud * count * k;
    with_dims(dims, [&]<int Dims>() {
      exclude_self ? search<Dims>(distinct, k, out) : search_queries<Dims>(distinct, query, count, k, out);
    });
  }
  return found;
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CPU, m) {
  m.impl("nearest_neighbours", nearest_neighbours_cpu);
  m.impl("nearest_points", nearest_points_cpu);
}

}  // namespace topomask::ops::nearest_neighbours

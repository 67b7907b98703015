#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <nanoflann.hpp>
#include <torch/library.h>

#include <limits>

#include "core/checks.h"
#include "graph/csr.h"
#include "graph/distinct_points.h"
#include "topomask/graph.h"

namespace topomask {
namespace {

constexpr const char* kOp = "knn";
constexpr double kMaxCoordinate = 1e150;  // squares stay finite in float64

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
  using Metric = nanoflann::L2_Adaptor<double, PlaceReader, double, uint32_t>;
  using Tree = nanoflann::KDTreeSingleIndexAdaptor<Metric, PlaceReader, Dims, uint32_t>;
  const PlaceReader reader{points};
  const Tree tree(static_cast<int>(points.dims), reader, nanoflann::KDTreeSingleIndexAdaptorParams(10));
  at::parallel_for(0, points.count(), 256, [&](int64_t begin, int64_t end) {
    NearestSet nearest(points, k + 1);  // one more: the point itself is among them
    for (int64_t place = begin; place < end; ++place) {
      nearest.clear();
      tree.findNeighbors(nearest, points.places.data() + place * points.dims, {});
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

void check_points(const at::Tensor& points) {
  TORCH_CHECK(points.defined() && is_real(points.scalar_type()) && points.dim() == 2 && points.size(1) > 0, kOp,
              ": points must be float32 or float64 [N, dims >= 1], got ", describe(points));
  check_node_count(kOp, "the number of points", points.size(0));
  const at::Tensor wide = points.detach().to(at::kCPU, at::kDouble).contiguous();
  const double* value = wide.const_data_ptr<double>();
  for (int64_t p = 0; p < wide.numel(); ++p) {
    TORCH_CHECK(std::abs(value[p]) <= kMaxCoordinate, kOp, ": points must be finite, at most 1e150 in magnitude, got ",
                value[p], " at point ", p / wide.size(1));
  }
}

/// int32 [N, k], by distance and then index, for 1 ≤ k < N and finite points.
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

at::Tensor nearest_neighbours_meta(const at::Tensor& points, c10::SymInt k) {
  return at::empty_symint({points.sym_size(0), std::move(k)}, points.options().dtype(at::kInt));
}

/// Ascending in each row; the neighbours of each node on any device.
PatternPtr directed_pattern(const at::Tensor& neighbours) {
  const int64_t nodes = neighbours.size(0), k = neighbours.size(1);
  const at::Tensor offsets = at::arange(nodes + 1, neighbours.options().dtype(at::kLong)) * k;
  return std::make_shared<SparsePattern>(nodes, nodes, offsets, std::get<0>(neighbours.sort(1)).flatten());
}

/// An edge where either end chose the other.
PatternPtr symmetric_pattern(const at::Tensor& neighbours) {
  const int64_t nodes = neighbours.size(0);
  const at::Tensor target = neighbours.flatten().to(at::kLong);
  const at::Tensor source = at::arange(nodes, target.options()).repeat_interleave(neighbours.size(1));
  const at::Tensor pairs = at::cat({source * nodes + target, target * nodes + source});
  const at::Tensor distinct = std::get<0>(at::_unique(pairs, /*sorted=*/true));
  const at::Tensor rows = at::floor_divide(distinct, nodes), first = at::arange(nodes + 1, target.options());
  return std::make_shared<SparsePattern>(nodes, nodes, at::searchsorted(rows, first),
                                         (distinct - rows * nodes).to(at::kInt));
}

}  // namespace

Graph Graph::knn(const at::Tensor& points, const KnnOptions& options) {
  check_points(points);
  const int64_t nodes = points.size(0);
  const int64_t k = options.k;
  TORCH_CHECK(k >= 0 && (nodes == 0 || k < nodes), kOp, ": k must be in [0, ", nodes, "), the number of points, got ",
              k);
  check_entry_count(kOp, checked_product(kOp, "points x k", {nodes, k}, std::numeric_limits<int64_t>::max()));
  static const auto nearest = c10::Dispatcher::singleton()
                                  .findSchemaOrThrow("topomask::nearest_neighbours", "")
                                  .typed<decltype(nearest_neighbours_meta)>();
  const at::Tensor neighbours =
      nodes == 0 || k == 0 ? at::empty({nodes, 0}, points.options().dtype(at::kInt)) : nearest.call(points.detach(), k);
  if (!options.directed && points.is_cpu()) {
    const at::Tensor source = at::arange(nodes, at::kInt).repeat_interleave(neighbours.size(1));
    return from_edges(nodes, source, neighbours.flatten());
  }
  PatternPtr pattern = options.directed ? directed_pattern(neighbours) : symmetric_pattern(neighbours);
  const at::Tensor ones = at::ones({pattern->entries()}, pattern->columns().options().dtype(at::kFloat));
  return Graph(std::move(pattern), ones, options.directed);
}

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.def("nearest_neighbours(Tensor points, SymInt k) -> Tensor");
}

TORCH_LIBRARY_IMPL(topomask, CPU, m) {
  m.impl("nearest_neighbours", nearest_neighbours_cpu);
}

TORCH_LIBRARY_IMPL(topomask, Meta, m) {
  m.impl("nearest_neighbours", nearest_neighbours_meta);
}

}  // namespace topomask

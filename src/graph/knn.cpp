#include <ATen/ATen.h>

#include <limits>

#include "core/checks.h"
#include "graph/csr.h"
#include "ops/nearest_neighbours/op.h"
#include "topomask/graph.h"

namespace topomask {
namespace {

constexpr const char* kKnnOp = "knn";
constexpr double kMaxCoordinate = 1e150;  // squares stay finite in float64

void check_points(const at::Tensor& points) {
  TORCH_CHECK(points.defined() && is_real(points.scalar_type()) && points.dim() == 2 && points.size(1) > 0, kKnnOp,
              ": points must be float32 or float64 [N, dims >= 1], got ", describe(points));
  check_node_count(kKnnOp, "the number of points", points.size(0));
  const at::Tensor wide = points.detach().to(at::kCPU, at::kDouble).contiguous();
  const double* value = wide.const_data_ptr<double>();
  for (int64_t p = 0; p < wide.numel(); ++p) {
    TORCH_CHECK(std::abs(value[p]) <= kMaxCoordinate, kKnnOp,
                ": points must be finite, at most 1e150 in magnitude, got ", value[p], " at point ", p / wide.size(1));
  }
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
  TORCH_CHECK(k >= 0 && (nodes == 0 || k < nodes), kKnnOp, ": k must be in [0, ", nodes,
              "), the number of points, got ", k);
  check_entry_count(kKnnOp, checked_product(kKnnOp, "points x k", {nodes, k}, std::numeric_limits<int64_t>::max()));
  const at::Tensor neighbours = nodes == 0 || k == 0 ? at::empty({nodes, 0}, points.options().dtype(at::kInt))
                                                     : ops::nearest_neighbours::find(points.detach(), k);
  if (!options.directed && points.is_cpu()) {
    const at::Tensor source = at::arange(nodes, at::kInt).repeat_interleave(neighbours.size(1));
    return from_edges(nodes, source, neighbours.flatten());
  }
  PatternPtr pattern = options.directed ? directed_pattern(neighbours) : symmetric_pattern(neighbours);
  const at::Tensor ones = at::ones({pattern->entries()}, pattern->columns().options().dtype(at::kFloat));
  return Graph(std::move(pattern), ones, options.directed);
}

}  // namespace topomask

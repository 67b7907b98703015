#include "ops/nearest_neighbours/op.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include "core/checks.h"
#include "ops/call.h"

namespace topomask::ops::nearest_neighbours {

at::Tensor find(const at::Tensor& points, c10::SymInt k) {
  return call<"nearest_neighbours", at::Tensor(const at::Tensor&, c10::SymInt)>(points, std::move(k));
}

at::Tensor find_in_clouds(const at::Tensor& queries, const at::Tensor& points, c10::SymInt k, bool exclude_self) {
  return call<"nearest_points", at::Tensor(const at::Tensor&, const at::Tensor&, c10::SymInt, bool)>(
      queries, points, std::move(k), exclude_self);
}

void check_clouds(const at::Tensor& queries, const at::Tensor& points, int64_t k, bool exclude_self) {
  constexpr const char* kOp = "nearest_points";
  TORCH_CHECK(is_real(points.scalar_type()) && points.dim() == 3 && points.size(2) >= 1, kOp,
              ": points must be float32 or float64 [B, N, dims >= 1], got ", describe(points));
  TORCH_CHECK(queries.dim() == 3 && queries.scalar_type() == points.scalar_type() &&
                  queries.device() == points.device() && queries.size(0) == points.size(0) &&
                  queries.size(2) == points.size(2),
              kOp, ": queries must be [B = ", points.size(0), ", Q, dims = ", points.size(2), "] like points, ",
              describe(points), ", got ", describe(queries));
  TORCH_CHECK(!exclude_self || queries.size(1) == points.size(1), kOp,
              ": queries must be the points where they exclude themselves, got ", describe(queries));
  const int64_t most = points.size(1) - (exclude_self ? 1 : 0);
  TORCH_CHECK(k >= 1 && k <= most, kOp, ": k must be in [1, ", most, "], the points of a cloud",
              exclude_self ? " but one" : "", ", got ", k);
}

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.def("nearest_points(Tensor queries, Tensor points, SymInt k, bool exclude_self) -> Tensor");
  m.def("nearest_neighbours(Tensor points, SymInt k) -> Tensor");
}

TORCH_LIBRARY_IMPL(topomask, Meta, m) {
  m.impl("nearest_points", [](const at::Tensor& queries, const at::Tensor&, c10::SymInt k, bool) {
    return at::empty_symint({queries.sym_size(0), queries.sym_size(1), std::move(k)},
                            queries.options().dtype(at::kInt));
  });
  m.impl("nearest_neighbours", [](const at::Tensor& points, c10::SymInt k) {
    return at::empty_symint({points.sym_size(0), std::move(k)}, points.options().dtype(at::kInt));
  });
}

}  // namespace topomask::ops::nearest_neighbours

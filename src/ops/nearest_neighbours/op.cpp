#include "ops/nearest_neighbours/op.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include "ops/call.h"

namespace topomask::ops::nearest_neighbours {

at::Tensor find(const at::Tensor& points, c10::SymInt k) {
  return call<"nearest_neighbours", at::Tensor(const at::Tensor&, c10::SymInt)>(points, std::move(k));
}

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.def("nearest_neighbours(Tensor points, SymInt k) -> Tensor");
}

TORCH_LIBRARY_IMPL(topomask, Meta, m) {
  m.impl("nearest_neighbours", [](const at::Tensor& points, c10::SymInt k) {
    return at::empty_symint({points.sym_size(0), std::move(k)}, points.options().dtype(at::kInt));
  });
}

}  // namespace topomask::ops::nearest_neighbours

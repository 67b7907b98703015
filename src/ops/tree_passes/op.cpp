#include "ops/tree_passes/op.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include "ops/call.h"

namespace topomask::ops::tree_passes {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;

Two inside_and_outside(const Tensor& x, const Tensor& edge, at::TensorList paths, at::IntArrayRef levels) {
  return call<"tree_passes", Two(const Tensor&, const Tensor&, at::TensorList, at::IntArrayRef)>(x, edge, paths,
                                                                                                 levels);
}

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.def("tree_passes(Tensor x, Tensor edge, Tensor[] paths, int[] levels) -> (Tensor inside, Tensor outside)");
}

TORCH_LIBRARY_IMPL(topomask, Meta, m) {
  m.impl("tree_passes", [](const Tensor& x, const Tensor&, at::TensorList, at::IntArrayRef) {
    return Two(at::empty_like(x), at::empty_like(x));
  });
}

}  // namespace topomask::ops::tree_passes

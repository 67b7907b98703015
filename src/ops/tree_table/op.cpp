#include "ops/tree_table/op.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include "ops/call.h"

namespace topomask::ops::tree_table {

using at::Tensor;

Tensor row_sums(const Tensor& x, const Tensor& offsets, const Tensor& items) {
  return call<"tree_row_sums", Tensor(const Tensor&, const Tensor&, const Tensor&)>(x, offsets, items);
}

void spread(Tensor y, const Tensor& products, const Tensor& place, double sign) {
  call<"tree_spread_", Tensor&(Tensor&, const Tensor&, const Tensor&, double)>(y, products, place, sign);
}

Tensor hankel(const Tensor& table, const Tensor& sums, const Tensor& depth, const Tensor& tiles) {
  return call<"hankel", Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&)>(table, sums, depth, tiles);
}

void add_hankel_gradient(Tensor gradient, const Tensor& g, const Tensor& x, const Tensor& depth, const Tensor& tiles,
                         double sign) {
  using Signature = Tensor&(Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, double);
  call<"hankel_gradient_", Signature>(gradient, g, x, depth, tiles, sign);
}

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.def("tree_row_sums(Tensor x, Tensor offsets, Tensor items) -> Tensor");
  m.def("tree_spread_(Tensor(a!) y, Tensor products, Tensor place, float sign) -> Tensor(a!)");
  m.def("hankel(Tensor table, Tensor sums, Tensor depth, Tensor tiles) -> Tensor");
  m.def(
      "hankel_gradient_(Tensor(a!) gradient, Tensor g, Tensor x, Tensor depth, Tensor tiles, float sign) -> "
      "Tensor(a!)");
}

TORCH_LIBRARY_IMPL(topomask, Meta, m) {
  m.impl("tree_row_sums", [](const Tensor& x, const Tensor& offsets, const Tensor&) {
    return at::empty({x.size(0), x.size(1), offsets.size(0) - 1, x.size(3)}, x.options());
  });
  m.impl("tree_spread_", [](Tensor& y, const Tensor&, const Tensor&, double) -> Tensor& { return y; });
  m.impl("hankel",
         [](const Tensor&, const Tensor& sums, const Tensor&, const Tensor&) { return at::empty_like(sums); });
  m.impl("hankel_gradient_",
         [](Tensor& gradient, const Tensor&, const Tensor&, const Tensor&, const Tensor&, double) -> Tensor& {
           return gradient;
         });
}

}  // namespace topomask::ops::tree_table

#include "ops/placed_gram/op.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include "ops/call.h"

namespace topomask::ops::placed_gram {

using at::Tensor;
using at::TensorList;

std::tuple<Tensor, Tensor> make(TensorList a, TensorList out, int64_t most) {
  using Signature = std::tuple<Tensor, Tensor>(TensorList, TensorList, int64_t);
  return call<"gram_places", Signature>(a, out, most);
}

Tensor gram(const Tensor& values, TensorList a, TensorList out, const Tensor& starts, const Tensor& places) {
  using Signature = Tensor(const Tensor&, TensorList, TensorList, const Tensor&, const Tensor&);
  return call<"placed_gram", Signature>(values, a, out, starts, places);
}

Tensor backward(const Tensor& grad, const Tensor& values, TensorList a, TensorList out, const Tensor& starts,
                const Tensor& places) {
  using Signature = Tensor(const Tensor&, const Tensor&, TensorList, TensorList, const Tensor&, const Tensor&);
  return call<"placed_gram_backward", Signature>(grad, values, a, out, starts, places);
}

namespace {

Tensor gram_meta(const Tensor& values, TensorList, TensorList out, const Tensor&, const Tensor&) {
  return at::empty_symint({values.sym_size(0), out[1].sym_size(0)}, values.options());
}

Tensor backward_meta(const Tensor&, const Tensor& values, TensorList, TensorList, const Tensor&, const Tensor&) {
  return at::empty_symint(values.sym_sizes(), values.options());
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.def("gram_places(Tensor[] a, Tensor[] out, int most) -> (Tensor starts, Tensor places)");
  m.def("placed_gram(Tensor values, Tensor[] a, Tensor[] out, Tensor starts, Tensor places) -> Tensor");
  m.def(
      "placed_gram_backward(Tensor grad, Tensor values, Tensor[] a, Tensor[] out, Tensor starts, Tensor places) "
      "-> Tensor");
}

TORCH_LIBRARY_IMPL(topomask, Meta, m) {
  m.impl("placed_gram", gram_meta);
  m.impl("placed_gram_backward", backward_meta);
}

}  // namespace topomask::ops::placed_gram

#include "ops/walk_features/op.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include "ops/call.h"

namespace topomask::ops::walk_features {

using at::Tensor;

Tensor values(const Tensor& f, const Tensor& hops, const Tensor& loads, const Tensor& feature_offsets, double scale) {
  using Signature = Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&, double);
  return call<"walk_features", Signature>(f, hops, loads, feature_offsets, scale);
}

Tensor backward(const Tensor& grad, const Tensor& hops, const Tensor& loads, const Tensor& feature_offsets,
                c10::SymInt terms, double scale) {
  using Signature = Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&, c10::SymInt, double);
  return call<"walk_features_backward", Signature>(grad, hops, loads, feature_offsets, std::move(terms), scale);
}

namespace {

Tensor walk_features_meta(const Tensor& f, const Tensor&, const Tensor&, const Tensor& feature_offsets, double) {
  return at::empty_symint({f.sym_size(0), feature_offsets.sym_size(0) - 1}, f.options());
}

Tensor walk_features_backward_meta(const Tensor& grad, const Tensor&, const Tensor&, const Tensor&, c10::SymInt terms,
                                   double) {
  return at::empty_symint({grad.sym_size(0), std::move(terms)}, grad.options());
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.def("walk_features(Tensor f, Tensor hops, Tensor loads, Tensor feature_offsets, float scale) -> Tensor");
  m.def(
      "walk_features_backward(Tensor grad, Tensor hops, Tensor loads, Tensor feature_offsets, SymInt terms, "
      "float scale) -> Tensor");
}

TORCH_LIBRARY_IMPL(topomask, Meta, m) {
  m.impl("walk_features", walk_features_meta);
  m.impl("walk_features_backward", walk_features_backward_meta);
}

}  // namespace topomask::ops::walk_features

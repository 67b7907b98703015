#include "ops/factored_product/op.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include "core/checks.h"
#include "ops/call.h"
#include "ops/deprecated/op.h"

namespace topomask::ops::factored_product {

using at::Tensor;
using at::TensorList;

Sides check(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& left_values, TensorList left_tensors,
            const Tensor& right_values, TensorList right_tensors) {
  const char* op = "factored_product";
  Sides sides{{op, "left", left_tensors, PatternTensors::kBoth}, {op, "right", right_tensors, PatternTensors::kBoth}};
  const auto& [left, right] = sides;
  TORCH_CHECK(left.cols() == right.cols(), op, ": left and right must have as many columns, got ", left.cols(), " and ",
              right.cols());
  check_nodes(op, "q", q, left.rows());
  left.check_device(op, "q", q);
  right.check_device(op, "q", q);
  check_nodes(op, "k", k, right.rows());
  check_nodes(op, "v", v, right.rows());
  check_like(op, "k", k, "q", q);
  check_like(op, "v", v, "q", q);
  TORCH_CHECK(q.size(3) == k.size(3), op, ": k must have the width of q, ", q.size(3), ", got ", describe(k));
  check_values(op, "left_values", left_values, left.entries(), q);
  check_values(op, "right_values", right_values, right.entries(), q);
  return sides;
}

Two multiply(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& left_values, TensorList left,
             const Tensor& right_values, TensorList right) {
  using Signature =
      Two(const Tensor&, const Tensor&, const Tensor&, const Tensor&, TensorList, const Tensor&, TensorList);
  return call<"factored_product", Signature>(q, k, v, left_values, left, right_values, right);
}

Five backward(const Tensor& grad_numerator, const Tensor& grad_denominator, const Tensor& q, const Tensor& k,
              const Tensor& v, const Tensor& left_values, TensorList left, const Tensor& right_values, TensorList right,
              bool want_left, bool want_right) {
  using Signature = Five(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                         TensorList, const Tensor&, TensorList, bool, bool);
  return call<"factored_product_backward", Signature>(grad_numerator, grad_denominator, q, k, v, left_values, left,
                                                      right_values, right, want_left, want_right);
}

namespace {

Two multiply_meta(const Tensor& q, const Tensor&, const Tensor& v, const Tensor&, TensorList, const Tensor&,
                  TensorList) {
  const auto options = q.options().dtype(accumulation_type(q.scalar_type()));
  return {at::empty_symint({q.sym_size(0), q.sym_size(1), q.sym_size(2), v.sym_size(3)}, options),
          at::empty_symint({q.sym_size(0), q.sym_size(1), q.sym_size(2)}, options)};
}

Five backward_meta(const Tensor&, const Tensor&, const Tensor& q, const Tensor& k, const Tensor& v,
                   const Tensor& left_values, TensorList, const Tensor& right_values, TensorList, bool want_left,
                   bool want_right) {
  const auto like = [](const Tensor& t) { return at::empty_symint(t.sym_sizes(), t.options()); };
  return {like(q), like(k), like(v), want_left ? like(left_values) : at::empty({0, 0}, left_values.options()),
          want_right ? like(right_values) : at::empty({0, 0}, right_values.options())};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.def(
      "factored_product(Tensor q, Tensor k, Tensor v, Tensor left_values, Tensor[] left, Tensor right_values, "
      "Tensor[] right) -> (Tensor numerator, Tensor denominator)");
  m.def(
      "factored_product_backward(Tensor grad_numerator, Tensor grad_denominator, Tensor q, Tensor k, Tensor v, "
      "Tensor left_values, Tensor[] left, Tensor right_values, Tensor[] right, bool want_left, bool want_right) "
      "-> (Tensor grad_q, Tensor grad_k, Tensor grad_v, Tensor grad_left_values, Tensor grad_right_values)");
  deprecated::define_factored_product(m);
}

TORCH_LIBRARY_IMPL(topomask, Meta, m) {
  m.impl("factored_product", multiply_meta);
  m.impl("factored_product_backward", backward_meta);
}

}  // namespace topomask::ops::factored_product

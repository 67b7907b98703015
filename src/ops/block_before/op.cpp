#include "ops/block_before/op.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include "ops/block_rows_checks.h"

namespace topomask::ops::block_before {

using at::Tensor;
using block_rows::check_matrix;

void check(const Tensor& x, const Tensor& norm_weight, const Tensor& norm_bias, const Tensor& w, const Tensor& b,
           int64_t heads) {
  const char* op = "block_before";
  block_rows::check_rows(op, x, heads);
  const int64_t width = x.size(1);
  check_matrix(op, "w", w, x, {3 * width, width});
  check_matrix(op, "b", b, x, {3 * width});
  check_matrix(op, "norm_weight", norm_weight, x, {width});
  check_matrix(op, "norm_bias", norm_bias, x, {width});
}

void check_backward(const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& x, const Tensor& norm_weight,
                    const Tensor& norm_bias, const Tensor& w, const Tensor& q, const Tensor& k) {
  const char* op = "block_before_backward";
  TORCH_CHECK(q.dim() == 3, op, ": q must be [heads, N, d], got ", describe(q));
  const int64_t heads = q.size(0);
  block_rows::check_rows(op, x, heads);
  const int64_t width = x.size(1);
  const std::vector<int64_t> part{heads, x.size(0), width / heads};
  check_matrix(op, "dq", dq, x, part);
  check_matrix(op, "dk", dk, x, part);
  check_matrix(op, "dv", dv, x, part);
  check_matrix(op, "q", q, x, part);
  check_matrix(op, "k", k, x, part);
  check_matrix(op, "w", w, x, {3 * width, width});
  check_matrix(op, "norm_weight", norm_weight, x, {width});
  check_matrix(op, "norm_bias", norm_bias, x, {width});
}

namespace {

std::tuple<Tensor, Tensor, Tensor> before_meta(const Tensor& x, const Tensor&, const Tensor&, double, const Tensor&,
                                               const Tensor&, int64_t heads, double, bool) {
  const auto part = [&] { return x.new_empty_symint({heads, x.sym_size(0), x.sym_size(1) / heads}); };
  return {part(), part(), part()};
}

std::vector<Tensor> before_backward_meta(const Tensor&, const Tensor&, const Tensor&, const Tensor& x,
                                         const Tensor& norm_weight, const Tensor& norm_bias, double, const Tensor& w,
                                         const Tensor&, const Tensor&, double, bool) {
  return {at::empty_like(x), at::empty_like(norm_weight), at::empty_like(norm_bias), at::empty_like(w),
          w.new_empty_symint({w.sym_size(0)})};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.def(
      "block_before(Tensor x, Tensor norm_weight, Tensor norm_bias, float eps, Tensor w, Tensor b, int heads, "
      "float offset, bool low) -> (Tensor q, Tensor k, Tensor v)");
  m.def(
      "block_before_backward(Tensor dq, Tensor dk, Tensor dv, Tensor x, Tensor norm_weight, Tensor norm_bias, "
      "float eps, Tensor w, Tensor q, Tensor k, float offset, bool low) -> Tensor[]");
}

TORCH_LIBRARY_IMPL(topomask, Meta, m) {
  m.impl("block_before", before_meta);
  m.impl("block_before_backward", before_backward_meta);
}

}  // namespace topomask::ops::block_before

#include "ops/block_after/op.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include "ops/block_rows_checks.h"

namespace topomask::ops::block_after {

using at::Tensor;
using block_rows::check_matrix;

namespace {

/// What both passes read.
void check_layers(const char* op, const Tensor& x, const Tensor& out, const Tensor& wp, const Tensor& bp,
                  const Tensor& norm_weight, const Tensor& norm_bias, const Tensor& w1, const Tensor& b1,
                  const Tensor& w2) {
  TORCH_CHECK(out.dim() == 3, op, ": out must be [heads, N, d], got ", describe(out));
  block_rows::check_rows(op, x, out.size(0));
  const int64_t width = x.size(1);
  check_matrix(op, "out", out, x, {out.size(0), x.size(0), width / out.size(0)});
  check_matrix(op, "wp", wp, x, {width, width});
  check_matrix(op, "bp", bp, x, {width});
  check_matrix(op, "norm_weight", norm_weight, x, {width});
  check_matrix(op, "norm_bias", norm_bias, x, {width});
  TORCH_CHECK(w1.dim() == 2 && w1.size(0) % kWidthUnit == 0, op, ": w1 must have a multiple of ", kWidthUnit,
              " rows, got ", describe(w1));
  check_matrix(op, "w1", w1, x, {w1.size(0), width});
  check_matrix(op, "b1", b1, x, {w1.size(0)});
  check_matrix(op, "w2", w2, x, {width, w1.size(0)});
}

}  // namespace

void check(const Tensor& x, const Tensor& out, const Tensor& wp, const Tensor& bp, const Tensor& norm_weight,
           const Tensor& norm_bias, const Tensor& w1, const Tensor& b1, const Tensor& w2, const Tensor& b2) {
  check_layers("block_after", x, out, wp, bp, norm_weight, norm_bias, w1, b1, w2);
  check_matrix("block_after", "b2", b2, x, {x.size(1)});
}

void check_backward(const Tensor& grad, const Tensor& x, const Tensor& out, const Tensor& wp, const Tensor& bp,
                    const Tensor& norm_weight, const Tensor& norm_bias, const Tensor& w1, const Tensor& b1,
                    const Tensor& w2) {
  check_layers("block_after_backward", x, out, wp, bp, norm_weight, norm_bias, w1, b1, w2);
  check_matrix("block_after_backward", "grad", grad, x, x.sizes());
}

namespace {

Tensor after_meta(const Tensor& x, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, double,
                  const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool) {
  return at::empty_like(x);
}

std::vector<Tensor> after_backward_meta(const Tensor&, const Tensor& x, const Tensor& out, const Tensor& wp,
                                        const Tensor& bp, const Tensor& norm_weight, const Tensor& norm_bias, double,
                                        const Tensor& w1, const Tensor& b1, const Tensor& w2, bool) {
  std::vector<Tensor> result;
  for (const Tensor* like : {&x, &out, &wp, &bp, &norm_weight, &norm_bias, &w1, &b1, &w2, &bp}) {
    result.push_back(at::empty_like(*like));
  }
  return result;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.def(
      "block_after(Tensor x, Tensor out, Tensor wp, Tensor bp, Tensor norm_weight, Tensor norm_bias, float eps, "
      "Tensor w1, Tensor b1, Tensor w2, Tensor b2, bool low) -> Tensor");
  m.def(
      "block_after_backward(Tensor grad, Tensor x, Tensor out, Tensor wp, Tensor bp, Tensor norm_weight, "
      "Tensor norm_bias, float eps, Tensor w1, Tensor b1, Tensor w2, bool low) -> Tensor[]");
}

TORCH_LIBRARY_IMPL(topomask, Meta, m) {
  m.impl("block_after", after_meta);
  m.impl("block_after_backward", after_backward_meta);
}

}  // namespace topomask::ops::block_after

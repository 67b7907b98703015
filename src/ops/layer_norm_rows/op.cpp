#include "ops/layer_norm_rows/op.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include "core/checks.h"
#include "ops/call.h"

namespace topomask::ops::layer_norm_rows {

using at::Tensor;

namespace {

void check_rows(const char* op, const Tensor& x) {
  TORCH_CHECK(x.dim() > 0 && x.is_floating_point() && x.size(-1) > 0, op, ": x must be floating [..., width], got ",
              describe(x));
}

void check_affine(const char* op, const char* name, const Tensor& given, const Tensor& x) {
  const at::ScalarType dtype = given.scalar_type(), sums = accumulation_type(x.scalar_type());
  TORCH_CHECK(given.dim() == 1 && given.size(0) == x.size(-1) && (dtype == x.scalar_type() || dtype == sums) &&
                  given.device() == x.device(),
              op, ": ", name, " must be ", sums, " or of the dtype of x, [", x.size(-1), "], where x is, ", describe(x),
              ", got ", describe(given));
}

}  // namespace

void check(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, at::ScalarType dtype) {
  check_rows("layer_norm_rows", x);
  check_affine("layer_norm_rows", "weight", weight, x);
  check_affine("layer_norm_rows", "bias", bias, x);
  TORCH_CHECK(bias.scalar_type() == weight.scalar_type(), "layer_norm_rows: bias must be ", weight.scalar_type(),
              " as weight is, got ", describe(bias));
  TORCH_CHECK(eps > 0, "layer_norm_rows: eps must be > 0, got ", eps);
  check_finite("layer_norm_rows", "eps", eps);
  TORCH_CHECK(at::isFloatingType(dtype), "layer_norm_rows: dtype must be floating, got ", dtype);
}

void check_backward(const Tensor& grad, const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& rstd) {
  constexpr const char* kOp = "layer_norm_rows_backward";
  check_rows(kOp, x);
  check_affine(kOp, "weight", weight, x);
  TORCH_CHECK(grad.sizes() == x.sizes() && grad.is_floating_point() && grad.device() == x.device(), kOp,
              ": grad must be floating, shaped as x, ", describe(x), ", got ", describe(grad));
  const auto check_statistic = [&](const char* name, const Tensor& of_rows) {
    TORCH_CHECK(of_rows.sizes() == x.sizes().slice(0, x.dim() - 1) &&
                    of_rows.scalar_type() == accumulation_type(x.scalar_type()) && of_rows.device() == x.device(),
                kOp, ": ", name, " must be ", accumulation_type(x.scalar_type()), " ", x.sizes().slice(0, x.dim() - 1),
                ", a number for each row of x, got ", describe(of_rows));
  };
  check_statistic("mean", mean);
  check_statistic("rstd", rstd);
}

bool supports(int64_t width, at::ScalarType x, at::ScalarType dtype) {
  const auto is_low = [](at::ScalarType type) { return type == at::kBFloat16 || type == at::kHalf; };
  const bool types = x == at::kFloat ? dtype == at::kFloat || is_low(dtype) : is_low(x) && dtype == x;
  return types && width > 0 && width <= kMostCudaWidth && width % kCudaWidthUnit == 0;
}

bool supports(const Tensor& x, const Tensor& weight, const Tensor& bias, at::ScalarType dtype) {
  if (!x.is_cuda() || x.dim() == 0 || !weight.defined() || !bias.defined()) return false;
  const at::ScalarType type = weight.scalar_type();
  return supports(x.size(-1), x.scalar_type(), dtype) && (type == at::kFloat || type == x.scalar_type()) &&
         bias.scalar_type() == type && weight.device() == x.device() && bias.device() == x.device();
}

Three forward(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, at::ScalarType dtype) {
  using Signature = Three(const Tensor&, const Tensor&, const Tensor&, double, at::ScalarType);
  return call<"layer_norm_rows", Signature>(x, weight, bias, eps, dtype);
}

Three backward(const Tensor& grad, const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& rstd) {
  using Signature = Three(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&);
  return call<"layer_norm_rows_backward", Signature>(grad, x, weight, mean, rstd);
}

Tensor norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, at::ScalarType dtype) {
  return std::get<0>(forward(x, weight, bias, eps, dtype));
}

namespace {

Three forward_meta(const Tensor& x, const Tensor&, const Tensor&, double, at::ScalarType dtype) {
  const c10::SymIntArrayRef sizes = x.sym_sizes(), rows = sizes.slice(0, x.dim() - 1);
  const at::TensorOptions sums = x.options().dtype(accumulation_type(x.scalar_type()));
  return {at::empty_symint(sizes, x.options().dtype(dtype)), at::empty_symint(rows, sums),
          at::empty_symint(rows, sums)};
}

Three backward_meta(const Tensor&, const Tensor& x, const Tensor& weight, const Tensor&, const Tensor&) {
  const Tensor of_weight = at::empty_symint(weight.sym_sizes(), weight.options());
  return {at::empty_symint(x.sym_sizes(), x.options()), of_weight, at::empty_like(of_weight)};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.def(
      "layer_norm_rows(Tensor x, Tensor weight, Tensor bias, float eps, ScalarType dtype) -> (Tensor, Tensor, Tensor)");
  m.def(
      "layer_norm_rows_backward(Tensor grad, Tensor x, Tensor weight, Tensor mean, Tensor rstd) -> "
      "(Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(topomask, Meta, m) {
  m.impl("layer_norm_rows", forward_meta);
  m.impl("layer_norm_rows_backward", backward_meta);
}

}  // namespace topomask::ops::layer_norm_rows

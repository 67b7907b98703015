#include <ATen/ATen.h>
#include <torch/library.h>

#include "core/checks.h"
#include "ops/layer_norm_rows/op.h"

namespace topomask::ops::layer_norm_rows {

namespace {

using at::Tensor;

Three forward_cpu(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, at::ScalarType dtype) {
  check(x, weight, bias, eps, dtype);
  const at::ScalarType sums = accumulation_type(x.scalar_type());
  const auto [out, mean, rstd] =
      at::native_layer_norm(x.to(sums), x.sizes().slice(x.dim() - 1), weight.to(sums), bias.to(sums), eps);
  return {out.to(dtype), mean.squeeze(-1), rstd.squeeze(-1)};
}

Three backward_cpu(const Tensor& grad, const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& rstd) {
  check_backward(grad, x, weight, mean, rstd);
  const at::ScalarType sums = accumulation_type(x.scalar_type());
  const Tensor wide = weight.to(sums);
  const auto [of_x, of_weight, of_bias] =
      at::native_layer_norm_backward(grad.to(sums).contiguous(), x.to(sums).contiguous(), x.sizes().slice(x.dim() - 1),
                                     mean.unsqueeze(-1), rstd.unsqueeze(-1), wide, wide, {true, true, true});
  return {of_x.to(x.scalar_type()), of_weight.to(weight.scalar_type()), of_bias.to(weight.scalar_type())};
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CPU, m) {
  m.impl("layer_norm_rows", forward_cpu);
  m.impl("layer_norm_rows_backward", backward_cpu);
}

}  // namespace topomask::ops::layer_norm_rows

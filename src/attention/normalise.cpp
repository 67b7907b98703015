#include <ATen/ATen.h>

#include "attention/routes.h"
#include "core/checks.h"

namespace topomask {

at::Tensor normalise(const at::Tensor& numerator, const at::Tensor& denominator, double eps) {
  const at::Tensor floor = at::full_like(denominator, eps).masked_fill_(denominator < 0, -eps);
  return numerator / at::where(denominator.abs() < eps, floor, denominator).unsqueeze(-1);
}

at::Tensor with_ones_column(const at::Tensor& v) {
  const at::Tensor wide = v.to(accumulation_type(v.scalar_type()));
  return at::cat({wide, at::ones({v.size(0), v.size(1), v.size(2), 1}, wide.options().requires_grad(false))}, -1);
}

at::Tensor normalise_joint(const at::Tensor& product, double eps, at::ScalarType dtype) {
  const int64_t width = product.size(-1) - 1;
  return normalise(product.narrow(-1, 0, width), product.select(-1, width), eps).to(dtype);
}

}  // namespace topomask

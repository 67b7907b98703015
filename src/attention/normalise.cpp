#include "ops/normalise.h"

#include <ATen/ATen.h>

#include "attention/routes.h"

namespace topomask {

at::Tensor with_ones_column(const at::Tensor& v, int64_t unit) {
  const at::Tensor ones = at::ones({v.size(0), v.size(1), v.size(2), 1}, v.options().requires_grad(false));
  const int64_t zeros = unit - 1 - v.size(3) % unit;
  return at::cat({v, zeros > 0 ? at::constant_pad_nd(ones, {0, zeros}) : ones}, -1);
}

at::Tensor normalise_joint(const at::Tensor& product, const Problem& problem) {
  const int64_t width = problem.v.size(-1);
  const at::Tensor out = ops::normalise(product.narrow(-1, 0, width), product.select(-1, width), problem.eps);
  return out.to(problem.v.scalar_type());
}

}  // namespace topomask

#pragma once

#include <ATen/ATen.h>

#include <cmath>

#include "core/checks.h"

namespace topomask {

inline void check_rows(const char* op, const at::Tensor& x, int64_t nodes) {
  TORCH_CHECK(x.defined() && x.dim() == 2 && x.size(0) == nodes, op, ": x must be [N = ", nodes, ", C], got ",
              describe(x));
}

/// Uniform in ±√(6/(a + b)) for [..., a, b] (Glorot and Bengio 2010).
inline at::Tensor glorot_(at::Tensor weight) {
  const double bound = std::sqrt(6.0 / static_cast<double>(weight.size(-2) + weight.size(-1)));
  const at::NoGradGuard no_grad;
  return weight.uniform_(-bound, bound);
}

}  // namespace topomask

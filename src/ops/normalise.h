#pragma once

#include <ATen/ATen.h>

namespace topomask::ops {

/// numerator [..., C] / D with D the denominator [...] kept at least eps from zero, with its sign (0 counts as +).
inline at::Tensor normalise(const at::Tensor& numerator, const at::Tensor& denominator, double eps) {
  const at::Tensor floor = at::full_like(denominator, eps).masked_fill_(denominator < 0, -eps);
  return numerator / at::where(denominator.abs() < eps, floor, denominator).unsqueeze(-1);
}

}  // namespace topomask::ops

#pragma once

#include <ATen/ATen.h>
#include <topomask/dist.h>

/// W·x for the rows of a rank. inside [a, n]: rows of W with all columns at home; border [b, n + h]: the others, whose
/// columns are those of this rank and then those of its halo.
inline at::Tensor overlapped_product(const at::Tensor& inside, const at::Tensor& border, const at::Tensor& x,
                                     const topomask::HaloRows& rows, const std::string& group) {
  topomask::HaloExchange exchange = topomask::start_halo_exchange(x, rows, group);
  const at::Tensor first = at::matmul(inside, exchange.own());  // while rows travel
  const at::Tensor seen = at::cat({exchange.own(), exchange.wait()}, -2);
  return at::cat({first, at::matmul(border, seen)}, -2);
}

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace topomask {

// Registered operators: autograd, tracing and Python see them. Each is the other's gradient, so both are differentiable
// any number of times.

/// table [K], or [H, K], at the places of `index` (int16, any shape): index's shape, or [H, …]. Places from K − 1 on,
/// and negative ones, read the last value.
at::Tensor table_lookup(const at::Tensor& table, const at::Tensor& index);

/// The gradient of table_lookup: sums of grad [H, …] over equal places, [H, size]. Kept in double, in an order that
/// does not depend on the number of threads.
at::Tensor table_sums(const at::Tensor& grad, const at::Tensor& index, int64_t size);

}  // namespace topomask

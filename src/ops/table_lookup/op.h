#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/internal_api.h"

// Each of the two is the other's gradient, so both are differentiable any number of times.

namespace TOPOMASK_INTERNAL_API topomask {
namespace ops::table_lookup {

/// table [H, K], or [K], at the places of `index` (int16, any shape): [H, …], or index's shape. Places from K − 1 on,
/// and negative ones, read the last value. The operator `table_lookup`, which takes [H, K].
at::Tensor lookup(const at::Tensor& table, const at::Tensor& index);

/// The gradient of lookup: sums of grad [H, …] over equal places, [H, size]. Kept in double, in an order that does not
/// depend on the number of threads. The operator `table_sums`.
at::Tensor sums(const at::Tensor& grad, const at::Tensor& index, c10::SymInt size);

// What the operators ask of their arguments, on every device.
void check_lookup(const at::Tensor& table, const at::Tensor& index);
void check_sums(const at::Tensor& grad, const at::Tensor& index, int64_t size);

/// [H, …]: the heads, followed by the shape of the index.
template <class Size>
std::vector<Size> with_heads(Size heads, c10::ArrayRef<Size> shape) {
  std::vector<Size> result{std::move(heads)};
  result.insert(result.end(), shape.begin(), shape.end());
  return result;
}

}  // namespace ops::table_lookup
}  // namespace topomask

#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "core/internal_api.h"
#include "ops/pattern.h"

namespace TOPOMASK_INTERNAL_API topomask {
namespace ops::product_pattern {

using Two = std::tuple<at::Tensor, at::Tensor>;

/// Where A·Bᵀ can be nonzero, offsets and columns: (i, j) wherever row i of A and row j of B share a column. `a` holds
/// the rows of A (PatternTensors::kRows), `b` also the transpose of B (kBoth). On a GPU the number of entries is read
/// back. The operator `product_pattern`.
Two make(at::TensorList a, at::TensorList b);

/// What the operator asks of its arguments, on every device.
struct Factors {
  PatternTensors a, b;
};
Factors check(at::TensorList a, at::TensorList b);

}  // namespace ops::product_pattern
}  // namespace topomask

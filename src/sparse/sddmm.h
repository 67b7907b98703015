#pragma once

#include "ops/spmm/op.h"
#include "topomask/sparse.h"

namespace topomask {

/// The gradient of ⟨a, M·b⟩ in the values of M over the pattern: ops::spmm::sddmm.
inline at::Tensor sddmm(const at::Tensor& a, const at::Tensor& b, const SparsePattern& pattern, int64_t value_heads) {
  return ops::spmm::sddmm(a, b, {pattern.offsets(), pattern.columns()}, value_heads);
}

}  // namespace topomask

#pragma once

#include "core/internal_api.h"
#include "ops/pattern.h"

// Products with a sparse matrix M [rows, cols]: values [1 or H, entries] over a pattern, nodes [B, H, N, C].

namespace TOPOMASK_INTERNAL_API topomask {
namespace ops::spmm {

/// M·x for x [B, H, cols, C], the operator `spmm`; or Mᵀ·x for x [B, H, rows, C], `spmm_transposed`. Differentiable
/// once, in values and x. The pattern has its transpose (PatternTensors::kBoth).
at::Tensor multiply(const at::Tensor& values, const at::Tensor& x, at::TensorList pattern);
at::Tensor multiply_transposed(const at::Tensor& values, const at::Tensor& x, at::TensorList pattern);

/// a_i · b_j for each entry (i, j) of the pattern, a [B, H, rows, C] and b [B, H, cols, C], summed over the batch, and
/// over the heads too where value_heads is 1: the gradient of ⟨a, M·b⟩ in M's values, the operator `sddmm`.
/// [value_heads, entries]; not differentiable.
at::Tensor sddmm(const at::Tensor& a, const at::Tensor& b, at::TensorList pattern, c10::SymInt value_heads);

/// What the operators ask of their arguments, on every device.
PatternTensors check(const char* op, const at::Tensor& values, const at::Tensor& x, at::TensorList pattern,
                     bool transposed);
PatternTensors check_sddmm(const at::Tensor& a, const at::Tensor& b, at::TensorList pattern, int64_t value_heads);

}  // namespace ops::spmm
}  // namespace topomask

#pragma once

#include <ATen/ATen.h>

#include "core/checks.h"

namespace topomask {

// What the factories of encodings ask of a parameter that is one row of numbers, or one per head.

/// Longer rows are refused; places in them are kept as int16.
inline constexpr int64_t kLongestRow = 32768;

inline int64_t row_heads(const at::Tensor& parameter) {
  return parameter.dim() == 2 ? parameter.size(0) : 1;
}

/// Float or Double, [K] or [H, K] with least ≤ K ≤ kLongestRow, finite (where it is on the CPU).
inline void check_rows(const char* op, const char* name, const at::Tensor& parameter, int64_t least) {
  TORCH_CHECK(parameter.defined() && (parameter.dim() == 1 || parameter.dim() == 2) &&
                  is_real(parameter.scalar_type()) && row_heads(parameter) >= 1,
              op, ": ", name, " must be Float or Double, [K] or [H, K], got ", describe(parameter));
  TORCH_CHECK(parameter.size(-1) >= least && parameter.size(-1) <= kLongestRow, op, ": ", name, " must have ", least,
              " to ", kLongestRow, " values, got ", describe(parameter));
  check_finite(op, name, parameter);
}

}  // namespace topomask

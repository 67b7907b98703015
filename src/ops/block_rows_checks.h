#pragma once

#include <ATen/core/Tensor.h>

#include "core/checks.h"
#include "core/simd.h"

// What block_before and block_after ask of their arguments.

namespace topomask::ops::block_rows {

inline void check_rows(const char* op, const at::Tensor& x, int64_t heads) {
  TORCH_CHECK(x.dim() == 2 && is_real(x.scalar_type()) && x.is_contiguous(), op,
              ": x must be contiguous float32 or float64 [N, width], got ", describe(x));
  TORCH_CHECK(heads >= 1 && x.size(1) % heads == 0 && x.size(1) / heads % kWidthUnit == 0, op,
              ": the width of x must be a multiple of ", kWidthUnit, " for each of ", heads, " heads, got ",
              describe(x));
}

inline void check_matrix(const char* op, const char* name, const at::Tensor& w, const at::Tensor& x,
                         at::IntArrayRef sizes) {
  TORCH_CHECK(w.sizes() == sizes && w.scalar_type() == x.scalar_type(), op, ": ", name, " must be ", x.scalar_type(),
              " ", sizes, ", got ", describe(w));
}

}  // namespace topomask::ops::block_rows

#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

namespace topomask::ops {

/// The slices (b, h) of a tensor [B, H, N, C]: kernels over trees have them on an axis of their grid, which ends there.
inline int64_t grid_slices(const char* op, const at::Tensor& x) {
  constexpr int64_t kMost = 65535;
  const int64_t slices = x.size(0) * x.size(1);
  TORCH_CHECK(slices <= kMost, op, ": batch times heads must be at most ", kMost, " on cuda, got ", x.size(0),
              " times ", x.size(1));
  return slices;
}

}  // namespace topomask::ops

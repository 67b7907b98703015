#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace topomask {

/// Edge weights as a contiguous tensor (the same one where it is contiguous), checked: float32 or float64 [entries],
/// finite, on cpu.
at::Tensor checked_weights(const char* op, const at::Tensor& weights, int64_t entries);

}  // namespace topomask

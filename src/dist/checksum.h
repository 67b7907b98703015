#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/internal_api.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// A number that differs, up to chance, between tensors that differ in dtype, shape or any byte; the same on every
/// device and for any strides. Σ_i mixed_bits(word_i ^ mixed_bits(i)) over the bytes in words of 8, the last one padded
/// with zeros, plus that of dtype and shape; modulo 2⁶⁴. O(bytes), with no memory but that of a contiguous copy.
int64_t checksum(const at::Tensor& tensor);

}  // namespace topomask

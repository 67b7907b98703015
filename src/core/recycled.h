#pragma once

#include <ATen/core/Tensor.h>

#include "core/internal_api.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// at::empty on the CPU, except that a large tensor takes memory kept from one freed before (topomask/memory.h), and
/// new memory in pages of 2 MiB where the system has them.
at::Tensor recycled_empty(at::IntArrayRef sizes, const at::TensorOptions& options);

}  // namespace topomask

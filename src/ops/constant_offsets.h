#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "core/internal_api.h"

namespace TOPOMASK_INTERNAL_API topomask {
namespace ops {

/// Offsets of patterns on a GPU that nobody writes to, and what is read back of them once. Offsets that an operator's
/// caller gives may have changed since the last call, and looking would wait for the device.
class ConstantOffsets {
 public:
  static void add(const at::Tensor& offsets);

  /// The most entries of a row; none for other offsets, nor at the first call where it must not wait.
  static std::optional<int64_t> longest_row(const at::Tensor& offsets, bool may_wait);
};

}  // namespace ops
}  // namespace topomask

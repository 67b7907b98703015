#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <mutex>

#include "core/internal_api.h"
#include "topomask/walks.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// The constant loads of a table as masks compute from them, for all copies of the table: what may be cached by them.
///
/// Nothing about a tensor but its values says whether they changed (core/tensor_cache.h). On the CPU the values are
/// compared with a copy, and get another number when they have changed: O(T) bytes read on all threads. On a GPU, where
/// a comparison would wait for the device, the table computes from a copy that nobody else holds, made at first use,
/// and the number never changes.
class KeptLoads {
 public:
  static const std::shared_ptr<KeptLoads>& of(const WalkTable& table) { return table.kept_; }

  struct Values {
    at::Tensor loads;  ///< a copy that nobody else writes to
    int64_t number;
  };
  /// The values of `loads`, the table's.
  Values current(const at::Tensor& loads);

 private:
  std::mutex mutex_;
  Values kept_{{}, 0};
};

}  // namespace topomask

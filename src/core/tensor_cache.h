#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "core/internal_api.h"
#include "core/plain_ops.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// Tensors computed from parameters, cached between calls that find the same values in the parameters.
///
/// Nothing about a tensor but its values says whether they changed: fused optimisers, `.data` and raw pointers write to
/// it without raising its version counter, and `set_data` exchanges its memory. So the cache keeps a copy of the
/// parameters with the result and compares bytes, which costs little compared with the computation: parameters are the
/// few coefficients that a large result is computed from. The result is always computed again
///   - on a GPU, where a comparison would wait for the device (a frozen mask caches there: Mask::frozen),
///   - while a gradient is being recorded, and for inference tensors,
///   - where the parameters are as large as the result.
class TensorCache {
 public:
  /// compute(parameters), or what it returned before for the same values. `compute` must depend on its argument alone;
  /// it is called without autocast. Safe to call from several threads; callers must not write to the result.
  template <class Compute>
  std::vector<at::Tensor> get(const std::vector<at::Tensor>& parameters, const Compute& compute) const {
    const NoAutocast no_autocast;
    if (!worthwhile_ || !comparable(parameters)) return compute(parameters);
    const std::lock_guard lock(mutex_);
    if (holds(parameters)) return results_;
    const c10::InferenceMode ordinary(false);  // what is cached may later be used with tensors that have gradients
    const at::NoGradGuard no_grad;
    // Computed from the copy: the two belong together even if another thread writes to the parameters meanwhile.
    std::vector<at::Tensor> copies = copied(parameters), results = compute(copies);
    if (bytes(copies) >= bytes(results)) {
      worthwhile_ = false;
      parameters_.clear(), results_.clear();
    } else {
      parameters_ = std::move(copies);
      results_ = results;
    }
    return results;
  }

  /// For planning: whether a second call finds the result of the first.
  static bool serves(const std::vector<at::Tensor>& parameters);

  /// Whether parameters are compared at all, here and now.
  static bool comparable(const std::vector<at::Tensor>& parameters);

 private:
  static std::vector<at::Tensor> copied(const std::vector<at::Tensor>& parameters);
  static size_t bytes(const std::vector<at::Tensor>& tensors);
  bool holds(const std::vector<at::Tensor>& parameters) const;

  mutable std::mutex mutex_;
  mutable std::atomic<bool> worthwhile_ = true;
  mutable std::vector<at::Tensor> parameters_;  // copies, contiguous
  mutable std::vector<at::Tensor> results_;
};

}  // namespace topomask

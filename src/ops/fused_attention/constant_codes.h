#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <mutex>
#include <vector>

namespace topomask::ops::fused_attention {

/// Codes of TileKind::offsets that a mask made and nobody writes to. What follows from codes is found on the host, and
/// on a GPU it may be kept for these alone: whether others have changed since the last call would wait for the device.
class ConstantCodes {
 public:
  static void add(const at::Tensor& codes) {
    ConstantCodes& all = known();
    const std::lock_guard lock(all.mutex_);
    std::erase_if(all.codes_, [](const auto& known) { return known.expired(); });
    all.codes_.emplace_back(codes.getIntrusivePtr());
  }

  static bool has(const at::Tensor& codes) {
    ConstantCodes& all = known();
    const std::lock_guard lock(all.mutex_);
    // A reference that has not expired keeps its address from being another's.
    return std::any_of(all.codes_.begin(), all.codes_.end(), [&](const auto& known) {
      return !known.expired() && known._unsafe_get_target() == codes.unsafeGetTensorImpl();
    });
  }

 private:
  static ConstantCodes& known() {
    static auto* const all = new ConstantCodes;  // outlives the GPU
    return *all;
  }

  std::mutex mutex_;
  std::vector<c10::weak_intrusive_ptr<at::TensorImpl>> codes_;
};

}  // namespace topomask::ops::fused_attention

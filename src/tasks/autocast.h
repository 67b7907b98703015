#pragma once

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>

#include <string>

#include "config/names.h"
#include "core/internal_api.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// Mixed precision while it lives: float32 leaves everything alone, bfloat16 casts by torch's rules.
class Autocast {
 public:
  Autocast(at::DeviceType device, const std::string& precision) : device_(device) {
    enabled_ = kPrecisionNames.parse("train", "precision", precision) == Precision::bfloat16;
    // What stays in float32 then, the sums of linear attention, has factors that were bfloat16: a GPU's TF32 keeps all
    // of their bits.
    if (enabled_ && device == at::kCUDA) at::globalContext().setFloat32MatmulPrecision("high");
    if (!enabled_) return;
    at::autocast::increment_nesting();
    at::autocast::set_autocast_dtype(device_, at::kBFloat16);
    at::autocast::set_autocast_enabled(device_, true);
  }
  ~Autocast() {
    if (!enabled_) return;
    at::autocast::set_autocast_enabled(device_, false);
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  at::DeviceType device_;
  bool enabled_ = false;
};

}  // namespace topomask

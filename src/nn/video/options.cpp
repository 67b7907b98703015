#include "core/option_checks.h"
#include "topomask/nn/variants.h"
#include "topomask/nn/vivit_options.h"

namespace topomask {

void ViViTOptions::check(const std::string& origin) const {
  ViTOptions::check(origin);
  const OptionChecks check(origin);
  constexpr int64_t kMostFrames = 65536;
  check.within("frames", frames, 0, kMostFrames);
  check.within("tubelet", tubelet, 1, kMostFrames);
  check.one_of("attention", attention, {"factorised", "joint"});
  check.within("temporal_depth", temporal_depth, 0, 65536);
  check.one_of("temporal_variant", temporal_variant, variant_names());
}

}  // namespace topomask

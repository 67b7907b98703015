#include "topomask/grf.h"

#include "nn/variants/walk_mask.h"

namespace topomask {
namespace {

/// Kernel attention under Φ̂Φ̂ᵀ from graph random features (Reid et al. 2024).
const VariantRegistration kGrf("grf", [](const VariantSetting& setting) {
  const auto rule = [](const WalkTable& walks, const at::Tensor& f) { return grf_mask(walks, f); };
  return std::make_shared<KernelAttention>(walk_mask(setting, rule), setting.features());
});

}  // namespace
}  // namespace topomask

#include "nn/variants/walk_mask.h"
#include "topomask/grf.h"

namespace topomask {
namespace {

/// grf without importance weights: the ablation of equation 21.
const VariantRegistration kAdHoc("ad_hoc", [](const VariantSetting& setting) {
  return std::make_shared<KernelAttention>(walk_mask(setting, ad_hoc_mask), setting.features());
});

}  // namespace
}  // namespace topomask

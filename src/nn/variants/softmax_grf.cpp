#include "nn/variants/walk_mask.h"
#include "topomask/grf.h"

namespace topomask {
namespace {

/// Softmax attention with the mask of graph random features added to the logits.
const VariantRegistration kSoftmaxGrf("softmax_grf", [](const VariantSetting& setting) {
  const auto rule = [](const WalkTable& walks, const at::Tensor& f) { return grf_mask(walks, f); };
  return std::make_shared<SoftmaxAttention>(walk_mask(setting, rule));
});

}  // namespace
}  // namespace topomask

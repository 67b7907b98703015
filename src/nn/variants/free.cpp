#include <ATen/ATen.h>

#include "topomask/encodings.h"
#include "topomask/nn/variants.h"

namespace topomask {
namespace {

/// M = ΦΦᵀ with features of each token that do not depend on a graph: the ablation of the paper. They begin near 1/√r,
/// so that M begins near 1, no mask.
class FreeMask final : public MaskSource {
 public:
  explicit FreeMask(const VariantSetting& setting) : MaskSource(setting.global_tokens()) {
    const int64_t rank = setting.options.rank > 0 ? setting.options.rank : setting.num_nodes();
    const double level = 1 / std::sqrt(static_cast<double>(rank));
    features_ = register_parameter(
        "features",
        at::normal(level, 0.1 * level, {setting.options.heads, setting.num_nodes(), rank}, setting.generator));
  }

 protected:
  MaskPtr make() const override { return free_features_mask(features_); }

 private:
  at::Tensor features_;
};

const VariantRegistration kFree("free", [](const VariantSetting& setting) {
  return std::make_shared<KernelAttention>(std::make_shared<FreeMask>(setting), setting.features());
});

}  // namespace
}  // namespace topomask

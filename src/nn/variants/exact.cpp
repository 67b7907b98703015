#include <ATen/ATen.h>

#include "topomask/nn/variants.h"
#include "topomask/power_series.h"

namespace topomask {
namespace {

/// M_α = Σ α_k W^k with learnable α [H, hops + 1], no sampling.
class SeriesMask final : public MaskSource {
 public:
  explicit SeriesMask(const VariantSetting& setting) : MaskSource(setting.global_tokens()), graph_(setting.graph()) {
    alpha_ = register_parameter("alpha", setting.coefficients());
  }

  at::Tensor modulation() const override { return alpha_; }

 protected:
  MaskPtr make() const override {
    return power_series_mask(graph_.to(at::device(alpha_.device()).dtype(alpha_.scalar_type())), alpha_);
  }

 private:
  Graph graph_;
  at::Tensor alpha_;
};

const VariantRegistration kExact("exact", [](const VariantSetting& setting) {
  return std::make_shared<KernelAttention>(std::make_shared<SeriesMask>(setting), setting.features());
});

}  // namespace
}  // namespace topomask

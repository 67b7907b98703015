#include <ATen/ATen.h>

#include "topomask/encodings.h"
#include "topomask/nn/variants.h"

namespace topomask {
namespace {

/// M_ij = sin(π/4·(z(deg_i) + z(deg_j))) with learnable logits of z for the degrees of a grid: 0 … 4 of an image's.
class CentralityMaskSource final : public MaskSource {
 public:
  explicit CentralityMaskSource(const VariantSetting& setting)
      : MaskSource(setting.global_tokens()), graph_(setting.graph()) {
    logits_ = register_parameter("logits", at::zeros({setting.options.heads, 2 * std::ssize(setting.shape()) + 1}));
  }

 protected:
  MaskPtr make() const override { return centrality_mask(graph_.to(logits_.device()), logits_, {.logits = true}); }

 private:
  Graph graph_;
  at::Tensor logits_;
};

const VariantRegistration kCentrality("centrality", [](const VariantSetting& setting) {
  return std::make_shared<KernelAttention>(std::make_shared<CentralityMaskSource>(setting), setting.features());
});

}  // namespace
}  // namespace topomask

#include "topomask/diffusion.h"

#include <ATen/ATen.h>

#include "topomask/nn/variants.h"

namespace topomask {
namespace {

/// The heat kernel exp(−λL) of the grid with a learnable time λ > 0 for each head. A grid is the product of paths, so
/// that the kernel is the Kronecker product of theirs.
class HeatMask final : public MaskSource {
 public:
  explicit HeatMask(const VariantSetting& setting) : MaskSource(setting.global_tokens()) {
    for (const int64_t side : setting.shape()) paths_.push_back(Graph::path(side));
    TORCH_CHECK(setting.options.diffusion_time > 0, "ViT: diffusion_time must be > 0, got ",
                setting.options.diffusion_time);
    log_time_ =
        register_parameter("log_time", at::full({setting.options.heads}, std::log(setting.options.diffusion_time)));
  }

 protected:
  MaskPtr make() const override {
    std::vector<Graph> paths;
    for (const Graph& path : paths_) {
      paths.push_back(path.to(at::device(log_time_.device()).dtype(log_time_.scalar_type())));
    }
    return product_diffusion_mask(paths, log_time_.exp());
  }

 private:
  std::vector<Graph> paths_;
  at::Tensor log_time_;
};

const VariantRegistration kDiffusion("diffusion", [](const VariantSetting& setting) {
  return std::make_shared<KernelAttention>(std::make_shared<HeatMask>(setting), setting.features());
});

}  // namespace
}  // namespace topomask

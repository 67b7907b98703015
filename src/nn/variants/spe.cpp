#include <ATen/ATen.h>

#include <numbers>

#include "topomask/encodings.h"
#include "topomask/nn/variants.h"

namespace topomask {
namespace {

/// Stochastic positional encoding of the row-major sequence of patches (Liutkus et al. 2021): sine waves with learnable
/// frequency, amplitude and phase. The mask is signed; a constant wave of amplitude 1 keeps it positive at first,
/// and the others together begin with a tenth of its power.
class PositionalMask final : public MaskSource {
 public:
  explicit PositionalMask(const VariantSetting& setting)
      : MaskSource(setting.global_tokens()),
        nodes_(setting.num_nodes()),
        seed_(setting.seed + static_cast<uint64_t>(setting.layer)) {
    const int64_t waves = setting.options.rank > 0 ? setting.options.rank : 16, heads = setting.options.heads;
    at::Tensor frequencies = at::empty({heads, waves + 1}).uniform_(0, std::numbers::pi / 2, setting.generator);
    at::Tensor amplitudes = at::full({heads, waves + 1}, std::sqrt(0.1 / static_cast<double>(waves)));
    frequencies.select(1, 0).zero_();
    amplitudes.select(1, 0).fill_(1);
    frequencies_ = register_parameter("frequencies", frequencies);
    amplitudes_ = register_parameter("amplitudes", amplitudes);
    phases_ = register_parameter("phases", at::zeros({heads, waves + 1}));
  }

 protected:
  MaskPtr make() const override {
    return stochastic_positional_mask(nodes_, frequencies_, amplitudes_, phases_,
                                      {.realisations = frequencies_.size(1) * 4, .seed = seed_});
  }

 private:
  int64_t nodes_;
  uint64_t seed_;
  at::Tensor frequencies_, amplitudes_, phases_;
};

const VariantRegistration kSpe("spe", [](const VariantSetting& setting) {
  return std::make_shared<KernelAttention>(std::make_shared<PositionalMask>(setting), setting.features());
});

}  // namespace
}  // namespace topomask

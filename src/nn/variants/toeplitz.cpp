#include "topomask/toeplitz.h"

#include <ATen/ATen.h>

#include "topomask/nn/variants.h"

namespace topomask {
namespace {

/// M_ij = g(i − j) > 0 for the offset of two patches along both axes; log g is learnt, from 0: no mask.
class ToeplitzSource final : public MaskSource {
 public:
  explicit ToeplitzSource(const VariantSetting& setting)
      : MaskSource(setting.global_tokens()), side_(setting.options.grid()) {
    log_offsets_ = register_parameter("log_offsets", at::zeros({setting.options.heads, 2 * side_ - 1, 2 * side_ - 1}));
  }

 protected:
  MaskPtr make() const override { return toeplitz_mask({side_, side_}, log_offsets_, {.logarithmic = true}); }

 private:
  int64_t side_;
  at::Tensor log_offsets_;
};

const VariantRegistration kToeplitz("toeplitz", [](const VariantSetting& setting) {
  return std::make_shared<KernelAttention>(std::make_shared<ToeplitzSource>(setting), setting.features());
});

}  // namespace
}  // namespace topomask

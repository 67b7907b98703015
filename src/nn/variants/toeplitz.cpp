#include "topomask/toeplitz.h"

#include <ATen/ATen.h>

#include "topomask/nn/variants.h"

namespace topomask {
namespace {

/// M_ij = g(i − j) > 0 for the offset of two tokens along every axis; log g is learned and starts at 0: no mask.
class ToeplitzSource final : public MaskSource {
 public:
  explicit ToeplitzSource(const VariantSetting& setting)
      : MaskSource(setting.global_tokens()), shape_(setting.shape()) {
    std::vector<int64_t> offsets{setting.options.heads};
    for (const int64_t side : shape_) offsets.push_back(2 * side - 1);
    log_offsets_ = register_parameter("log_offsets", at::zeros(offsets));
  }

 protected:
  MaskPtr make() const override { return toeplitz_mask(shape_, log_offsets_, {.logarithmic = true}); }

 private:
  std::vector<int64_t> shape_;
  at::Tensor log_offsets_;
};

const VariantRegistration kToeplitz("toeplitz", [](const VariantSetting& setting) {
  return std::make_shared<KernelAttention>(std::make_shared<ToeplitzSource>(setting), setting.features());
});

}  // namespace
}  // namespace topomask

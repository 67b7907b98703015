#include "nn/together.h"
#include "topomask/attention.h"
#include "topomask/masks.h"
#include "topomask/nn/variants.h"

namespace topomask {
namespace {

/// φ(Q)(φ(K)ᵀV), normalised: no mask.
class LinearAttention final : public AttentionVariant {
 public:
  LinearAttention(int64_t tokens, FeatureMap features)
      : AttentionVariant(nullptr), none_(none_mask(tokens)), features_(std::move(features)) {}

  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) override {
    return attention(q, k, v, none_, {.features = features_});
  }
  at::Tensor forward_together(const at::Tensor& qkv) override {
    return attention_together(*this, qkv, none_, features_);
  }

 private:
  MaskPtr none_;
  FeatureMap features_;
};

const VariantRegistration kLinear("linear", [](const VariantSetting& setting) {
  return std::make_shared<LinearAttention>(setting.num_nodes() + setting.global_tokens(), setting.features());
});

}  // namespace
}  // namespace topomask

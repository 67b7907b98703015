#include <ATen/ATen.h>

#include "masks/interface/frozen_mask.h"
#include "topomask/global_tokens.h"
#include "topomask/nn/attention.h"

namespace topomask {
namespace {

/// Whether a mask follows the parameters of a module: it is made of these very tensors. Results of functions of them
/// cannot be recognised, since they are leaves as well where no gradient is recorded.
bool follows(const Mask& mask, const std::vector<at::Tensor>& own) {
  const auto used = mask.parameters();
  if (used.empty()) return own.empty();
  return std::all_of(used.begin(), used.end(), [&](const at::Tensor& parameter) {
    return std::any_of(own.begin(), own.end(), [&](const at::Tensor& p) { return p.is_same(parameter); });
  });
}

MaskPtr given_with_tokens(const MaskPtr& mask, int64_t global_tokens) {
  TORCH_CHECK(mask != nullptr, "GivenMask: mask must be given, got none");
  TORCH_CHECK(global_tokens >= 0, "GivenMask: global_tokens must be >= 0, got ", global_tokens);
  return with_global_tokens(mask, global_tokens);
}

}  // namespace

MaskPtr MaskSource::mask() {
  if (frozen_) return frozen_;
  const auto own = parameters();
  const at::TensorOptions now = own.empty() ? at::TensorOptions() : own[0].options();
  if (kept_ && (own.empty() || (now.device() == kept_for_.device() && now.dtype() == kept_for_.dtype()))) {
    return kept_;
  }
  MaskPtr mask = with_global_tokens(make(), global_tokens_);
  kept_ = follows(*mask, own) ? mask : nullptr;
  kept_for_ = now;
  return mask;
}

void MaskSource::freeze() {
  release();
  frozen_ = frozen_if_offered(*mask());
}

GivenMask::GivenMask(MaskPtr mask, int64_t global_tokens)
    : MaskSource(0), mask_(given_with_tokens(mask, global_tokens)) {
  const auto learnt = mask_->parameters();
  for (size_t p = 0; p < learnt.size(); ++p) {
    if (learnt[p].is_leaf() && learnt[p].requires_grad()) register_parameter(std::to_string(p), learnt[p]);
  }
}

FrozenMasks::FrozenMasks(const torch::nn::Module& model) {
  for (const auto& module : model.modules(/*include_self=*/false)) {
    if (auto source = std::dynamic_pointer_cast<MaskSource>(module)) sources_.push_back(std::move(source));
  }
  for (const auto& source : sources_) source->freeze();
}

FrozenMasks::~FrozenMasks() {
  for (const auto& source : sources_) source->release();
}

}  // namespace topomask

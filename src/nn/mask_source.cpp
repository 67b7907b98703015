#include <ATen/ATen.h>

#include "topomask/global_tokens.h"
#include "topomask/nn/attention.h"

namespace topomask {

MaskPtr MaskSource::mask() {
  const auto learnt = parameters();
  const at::TensorOptions now = learnt.empty() ? at::TensorOptions() : learnt[0].options();
  if (kept_ && (learnt.empty() || (now.device() == kept_for_.device() && now.dtype() == kept_for_.dtype()))) {
    return kept_;
  }
  MaskPtr mask = with_global_tokens(make(), global_tokens_);
  const auto used = mask->parameters();
  if (std::all_of(used.begin(), used.end(), [](const at::Tensor& p) { return p.is_leaf(); })) {
    kept_ = mask;
    kept_for_ = now;
  }
  return mask;
}

GivenMask::GivenMask(MaskPtr mask, int64_t global_tokens) : MaskSource(global_tokens), mask_(std::move(mask)) {
  TORCH_CHECK(mask_ != nullptr, "GivenMask: mask must be given, got none");
  TORCH_CHECK(global_tokens >= 0, "GivenMask: global_tokens must be >= 0, got ", global_tokens);
  const auto learnt = mask_->parameters();
  for (size_t p = 0; p < learnt.size(); ++p) {
    if (learnt[p].is_leaf() && learnt[p].requires_grad()) register_parameter(std::to_string(p), learnt[p]);
  }
}

}  // namespace topomask

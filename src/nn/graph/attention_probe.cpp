#include "nn/graph/attention_probe.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "nn/stack_heads.h"

namespace topomask {
namespace {

thread_local AttentionProbe* active_probe = nullptr;

}  // namespace

AttentionProbe::AttentionProbe(int64_t node) : node_(node), outer_(active_probe) {
  active_probe = this;
}

AttentionProbe::~AttentionProbe() {
  active_probe = outer_;
}

at::Tensor AttentionProbe::watched(const at::Tensor& v, const std::function<at::Tensor(const at::Tensor&)>& attend) {
  AttentionProbe* probe = active_probe;
  if (probe == nullptr) return attend(v);
  const at::AutoGradMode with_gradient(true);
  const at::Tensor values = v.detach().clone().requires_grad_(true);
  const at::Tensor out = attend(values);
  const at::Tensor weights =
      torch::autograd::grad({out.select(1, probe->node_).select(-1, 0).sum()}, {values})[0].select(-1, 0);
  probe->rows_.push_back(weights.detach());
  return out.detach();
}

at::Tensor AttentionProbe::rows() const {
  return stack_heads(rows_);
}

}  // namespace topomask

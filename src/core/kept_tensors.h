#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <mutex>
#include <vector>

namespace topomask {

/// Tensors computed from parameters, kept while these do not change and no gradient is asked.
class KeptTensors {
 public:
  template <class Compute>
  std::vector<at::Tensor> get(const std::vector<at::Tensor>& parameters, const Compute& compute) const {
    std::vector<uint32_t> versions;
    for (const at::Tensor& parameter : parameters) {
      const bool recorded = parameter.requires_grad() && at::GradMode::is_enabled();
      if (recorded || parameter.is_inference()) return compute(parameters);
      versions.push_back(parameter._version());
    }
    const std::lock_guard lock(mutex_);
    if (tensors_.empty() || versions != versions_) {
      const c10::InferenceMode ordinary(false);  // what is kept may later stand beside tensors with gradients
      const at::NoGradGuard no_grad;
      tensors_ = compute(parameters);
      versions_ = versions;
    }
    return tensors_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::vector<at::Tensor> tensors_;
  mutable std::vector<uint32_t> versions_;
};

/// ∂ Σ⟨cotangent, compute(θ)⟩/∂θ, zeros for a parameter without effect. Undefined outputs are passed over.
template <class Compute>
std::vector<at::Tensor> pull_back(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& cotangents,
                                  const Compute& compute) {
  const at::AutoGradMode recording(true);
  std::vector<at::Tensor> leaves, outputs, seeds;
  for (const at::Tensor& parameter : parameters) leaves.push_back(parameter.detach().requires_grad_());
  const std::vector<at::Tensor> computed = compute(leaves);
  for (size_t i = 0; i < computed.size(); ++i) {
    if (!computed[i].defined() || !computed[i].requires_grad()) continue;
    outputs.push_back(computed[i]);
    seeds.push_back(cotangents[i].view_as(computed[i]));
  }
  std::vector<at::Tensor> result(leaves.size());
  if (!outputs.empty()) {
    result = torch::autograd::grad(outputs, leaves, seeds, /*retain_graph=*/std::nullopt, /*create_graph=*/false,
                                   /*allow_unused=*/true);
  }
  for (size_t i = 0; i < result.size(); ++i) {
    if (!result[i].defined()) result[i] = at::zeros_like(parameters[i]);
  }
  return result;
}

}  // namespace topomask

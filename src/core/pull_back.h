#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <vector>

namespace topomask {

/// ∂ Σ⟨cotangent, compute(θ)⟩/∂θ, zeros for a parameter without effect. Undefined outputs are skipped.
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

#include "topomask/train/optimiser.h"

#include <ATen/ATen.h>

#include "config/names.h"
#include "core/checks.h"
#include "topomask/nn/parameters.h"

namespace topomask {
namespace {

void restore_tensor(const at::Tensor& into, const NamedTensors& state, const std::string& name) {
  const auto found = state.find(name);
  TORCH_CHECK(found != state.end(), "Optimiser::restore: state must have ", name, ", got none");
  TORCH_CHECK(found->second.sizes() == into.sizes(), "Optimiser::restore: ", name, " must be ", describe(into),
              ", got ", describe(found->second));
  into.copy_(found->second);
}

}  // namespace

Optimiser::Optimiser(const torch::nn::Module& model, const TrainOptions& options) : options_(options) {
  options.check();
  groups_ = {{.weight_decay = options.weight_decay, .rate = 1},
             {.weight_decay = 0, .rate = 1},
             {.weight_decay = 0, .rate = options.mask_learning_rate}};
  for (const auto& item : model.named_parameters()) {
    Group& group = groups_[static_cast<size_t>(parameter_kind(item.key(), item.value()))];
    group.names.push_back(item.key());
    group.parameters.push_back(item.value());
    group.first.push_back(at::zeros_like(item.value()).detach());
    group.second.push_back(at::zeros_like(item.value()).detach());
    if (!steps_.defined()) steps_ = at::zeros({}, item.value().options().dtype(at::kFloat).requires_grad(false));
  }
  TORCH_CHECK(steps_.defined(), "Optimiser: model must have parameters, got none");
}

at::Tensor Optimiser::step(double learning_rate) {
  TORCH_CHECK(learning_rate >= 0 && std::isfinite(learning_rate),
              "Optimiser::step: learning_rate must be finite and >= 0, got ", learning_rate);
  const at::NoGradGuard no_grad;
  std::vector<std::vector<at::Tensor>> gradients;
  std::vector<at::Tensor> all;
  for (const Group& group : groups_) {
    gradients.emplace_back();
    for (const at::Tensor& p : group.parameters) {
      const at::Tensor gradient = p.grad().defined() ? p.grad() : at::zeros_like(p);
      gradients.back().push_back(gradient);
      all.push_back(gradient);
    }
  }
  const at::Tensor norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(all, 2)));
  if (options_.clip_norm > 0) at::_foreach_mul_(all, (options_.clip_norm / (norm + 1e-6)).clamp_max(1));
  steps_ += 1;
  for (size_t g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    if (group.parameters.empty()) continue;
    const std::vector<at::Tensor> steps(group.parameters.size(), steps_);
    const auto update = [&](auto rule) {
      rule(group.parameters, gradients[g], group.first, group.second, {}, steps, learning_rate * group.rate,
           options_.beta1, options_.beta2, group.weight_decay, options_.epsilon, /*amsgrad=*/false, /*maximize=*/false,
           std::nullopt, std::nullopt);
    };
    using Rule = void (*)(at::TensorList, at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                          at::TensorList, double, double, double, double, double, bool, bool,
                          const std::optional<at::Tensor>&, const std::optional<at::Tensor>&);
    const bool adamw = kOptimiserNames.parse("train", "optimiser", options_.optimiser) == OptimiserRule::adamw;
    update(adamw ? static_cast<Rule>(at::_fused_adamw_) : static_cast<Rule>(at::_fused_adam_));
    for (const at::Tensor& p : group.parameters) p.mutable_grad().reset();
  }
  return norm;
}

NamedTensors Optimiser::state() const {
  NamedTensors state{{"steps", steps_}};
  for (const Group& group : groups_) {
    for (size_t p = 0; p < group.names.size(); ++p) {
      state["first." + group.names[p]] = group.first[p];
      state["second." + group.names[p]] = group.second[p];
    }
  }
  return state;
}

void Optimiser::restore(const NamedTensors& state) {
  restore_tensor(steps_, state, "steps");
  for (const Group& group : groups_) {
    for (size_t p = 0; p < group.names.size(); ++p) {
      restore_tensor(group.first[p], state, "first." + group.names[p]);
      restore_tensor(group.second[p], state, "second." + group.names[p]);
    }
  }
}

}  // namespace topomask

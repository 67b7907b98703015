#include "support/parameter_changes.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/optim/adamw.h>

#include "support/compare.h"

namespace topomask::testing {
namespace {

constexpr double kFactor = 0.875;

/// A gradient that makes an optimiser raise every value: parameters that must not be negative stay so.
at::Tensor uphill(const at::Tensor& parameter) {
  return at::full_like(parameter, -1, parameter.options().requires_grad(false));
}

void fused_step(at::Tensor& p) {
  const at::NoGradGuard no_grad;
  const auto plain = p.options().requires_grad(false);
  const std::vector<at::Tensor> parameters{p}, gradients{uphill(p)}, first{at::zeros(p.sizes(), plain)},
      second{at::zeros(p.sizes(), plain)}, steps{at::ones({}, plain.dtype(at::kFloat))};
  at::_fused_adamw_(parameters, gradients, first, second, {}, steps, /*lr=*/0.05, 0.9, 0.999, /*weight_decay=*/0, 1e-8,
                    /*amsgrad=*/false, /*maximize=*/false, std::nullopt, std::nullopt);
}

void unfused_step(at::Tensor& p) {
  p.mutable_grad() = uphill(p);
  torch::optim::AdamW optimiser({p}, torch::optim::AdamWOptions(0.05).weight_decay(0));
  optimiser.step();
  p.mutable_grad().reset();
}

std::vector<at::Tensor> copies(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& p : parameters) {
    result.push_back(p.detach().clone(at::MemoryFormat::Contiguous).requires_grad_(p.requires_grad()));
  }
  return result;
}

/// Everything a mask computes from its parameters, as in an evaluation.
std::vector<at::Tensor> all_forms(const Mask& mask) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> forms{mask.dense()};
  const auto device = mask.device().value_or(at::kCPU);
  const at::Tensor x = at::ones({mask.heads(), mask.size(), 2}, at::device(device).dtype(*mask.dtype())).cumsum(-2);
  for (const at::Tensor& y : {mask.matmul(x), mask.matmul_transposed(x)}) forms.push_back(y);
  if (const auto matrix = mask.sparse()) forms.push_back(matrix->dense());
  if (const auto factors = mask.factors()) {
    for (const Factor& side : {factors->left, factors->right}) {
      forms.push_back(side.sparse ? side.sparse->dense() : side.dense);
    }
  }
  for (at::Tensor& form : forms) form = form.clone();  // a form may be a view of a parameter
  return forms;
}

void expect_same_forms(const std::vector<at::Tensor>& actual, const std::vector<at::Tensor>& expected,
                       const std::string& what) {
  // A frozen mask may offer more: the last ones.
  ASSERT_GE(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(close(actual[i], expected[i], 1e-9)) << what << ", form " << i;
}

}  // namespace

const std::vector<ParameterChange>& parameter_changes() {
  using at::Tensor;
  static const std::vector<ParameterChange> changes{
      {"mul_", true,
       [](Tensor& p) {
         const at::NoGradGuard no_grad;
         p.mul_(kFactor);
       }},
      {"copy_", true,
       [](Tensor& p) {
         const at::NoGradGuard no_grad;
         p.copy_(p * kFactor);
       }},
      {"an optimiser", true, unfused_step},
      {"a fused optimiser", true, fused_step},
      {".data", true, [](Tensor& p) { p.variable_data().mul_(kFactor); }},
      {"set_data", true, [](Tensor& p) { p.set_data(p.detach() * kFactor); }},
      {"set_", true,
       [](Tensor& p) {
         const at::NoGradGuard no_grad;
         p.set_((p.detach() * kFactor));
       }},
      {"a raw pointer", false,
       [](Tensor& p) { at::from_blob(p.data_ptr(), {p.numel()}, at::dtype(p.scalar_type())).mul_(kFactor); }}};
  return changes;
}

void expect_follows_parameters(const Mask& mask) {
  if (mask.parameters().empty()) return;
  std::vector<at::Tensor> own = copies(mask.parameters());
  const MaskPtr live = mask.rebuild(own);
  ASSERT_TRUE(live) << "rebuild";
  for (const ParameterChange& change : parameter_changes()) {
    for (size_t i = 0; i < own.size(); ++i) {
      at::Tensor& parameter = own[i];
      if (!parameter.requires_grad() || (parameter.is_cuda() && !change.on_cuda)) continue;
      const std::string what = change.name + " of parameter " + std::to_string(i);
      const auto before = all_forms(*live);
      const MaskPtr frozen = live->frozen();
      EXPECT_TRUE(frozen->parameters().empty());
      change.write(parameter);
      expect_same_forms(all_forms(*live), all_forms(*mask.rebuild(copies(own))), what);
      expect_same_forms(all_forms(*frozen), before, what + ", frozen before");
      expect_same_forms(all_forms(*frozen), before, what + ", frozen before, again");
    }
  }
}

}  // namespace topomask::testing

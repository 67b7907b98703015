#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/normalised_weights/op.h"

namespace topomask::ops::normalised_weights {

namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class Weights : public torch::autograd::Function<Weights> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& scores, const Tensor& mask, double eps) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [weights, denominator] = normalised_weights::forward(scores, mask, eps);
    ctx->save_for_backward({scores, mask, denominator});
    ctx->mark_non_differentiable({denominator});
    ctx->saved_data["eps"] = eps;
    return {weights, denominator};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const auto [scores, mask] =
        normalised_weights::backward(grads[0], saved[0], saved[1], saved[2], ctx->saved_data["eps"].toDouble());
    return {scores, mask, {}};
  }
};

Two forward_autograd(const Tensor& scores, const Tensor& mask, double eps) {
  const auto result = Weights::apply(scores, mask, eps);
  return {result[0], result[1]};
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, Autograd, m) {
  m.impl("normalised_weights", forward_autograd);
  m.impl("normalised_weights_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace topomask::ops::normalised_weights

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "attention/normalised_weights.h"
#include "attention/ops.h"
#include "attention/routes.h"
#include "core/checks.h"

namespace topomask {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void check_weights(const Tensor& scores, const Tensor& mask, double eps) {
  TORCH_CHECK(scores.dim() == 4 && scores.is_floating_point(),
              "normalised_weights: scores must be floating [B, H, N, P], got ", describe(scores));
  TORCH_CHECK(mask.dim() == 3 && (mask.size(0) == 1 || mask.size(0) == scores.size(1)) &&
                  mask.size(1) == scores.size(2) && mask.size(2) == scores.size(3) &&
                  mask.scalar_type() == accumulation_type(scores.scalar_type()) && mask.device() == scores.device(),
              "normalised_weights: mask must be ", accumulation_type(scores.scalar_type()), " [1 or H, N, P] beside ",
              describe(scores), ", got ", describe(mask));
  TORCH_CHECK(eps > 0, "normalised_weights: eps must be > 0, got ", eps);
  check_finite("normalised_weights", "eps", eps);
}

std::tuple<Tensor, Tensor> plain_weights(const Tensor& scores, const Tensor& mask, double eps) {
  const Tensor weights = scores * mask, denominator = weights.sum(-1);
  return {normalise(weights, denominator, eps).to(scores.scalar_type()), denominator};
}

std::tuple<Tensor, Tensor> plain_weights_backward(const Tensor& grad, const Tensor& scores, const Tensor& mask,
                                                  const Tensor& denominator, double eps) {
  const Tensor inverse = normalise(at::ones_like(denominator).unsqueeze(-1), denominator, eps);
  // A clamped D does not move with the weights.
  const Tensor moving = (denominator.abs() >= eps).unsqueeze(-1);
  const Tensor mean = (grad * (scores * mask)).sum(-1, true).mul_(inverse).mul_(moving);
  const Tensor grad_weights = (grad - mean).mul_(inverse);
  const Tensor grad_mask = (grad_weights * scores).sum(0);
  return {(grad_weights * mask).to(scores.scalar_type()), mask.size(0) == 1 ? grad_mask.sum(0, true) : grad_mask};
}

namespace {

using Two = std::tuple<Tensor, Tensor>;
using Forward = Two(const Tensor&, const Tensor&, double);
using Backward = Two(const Tensor&, const Tensor&, const Tensor&, const Tensor&, double);

Two weights_cpu(const Tensor& scores, const Tensor& mask, double eps) {
  check_weights(scores, mask, eps);
  return plain_weights(scores, mask, eps);
}

Two weights_meta(const Tensor& scores, const Tensor& mask, double) {
  return {at::empty_like(scores, at::MemoryFormat::Contiguous),
          at::empty_symint({scores.sym_size(0), scores.sym_size(1), scores.sym_size(2)}, mask.options())};
}

Two weights_backward_meta(const Tensor&, const Tensor& scores, const Tensor& mask, const Tensor&, double) {
  return {at::empty_like(scores, at::MemoryFormat::Contiguous), at::empty_like(mask, at::MemoryFormat::Contiguous)};
}

const c10::TypedOperatorHandle<Forward>& forward_handle() {
  static const auto handle =
      c10::Dispatcher::singleton().findSchemaOrThrow("topomask::normalised_weights", "").typed<Forward>();
  return handle;
}

class NormalisedWeights : public torch::autograd::Function<NormalisedWeights> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& scores, const Tensor& mask, double eps) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [weights, denominator] = forward_handle().call(scores, mask, eps);
    ctx->save_for_backward({scores, mask, denominator});
    ctx->mark_non_differentiable({denominator});
    ctx->saved_data["eps"] = eps;
    return {weights, denominator};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    static const auto handle =
        c10::Dispatcher::singleton().findSchemaOrThrow("topomask::normalised_weights_backward", "").typed<Backward>();
    const auto s = ctx->get_saved_variables();
    const auto [scores, mask] = handle.call(grads[0], s[0], s[1], s[2], ctx->saved_data["eps"].toDouble());
    return {scores, mask, {}};
  }
};

Two weights_autograd(const Tensor& scores, const Tensor& mask, double eps) {
  const auto result = NormalisedWeights::apply(scores, mask, eps);
  return {result[0], result[1]};
}

}  // namespace

Tensor normalised_weights(const Tensor& scores, const Tensor& mask, double eps) {
  return std::get<0>(forward_handle().call(scores, mask, eps));
}

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.def("normalised_weights(Tensor scores, Tensor mask, float eps) -> (Tensor, Tensor)");
  m.def(
      "normalised_weights_backward(Tensor grad, Tensor scores, Tensor mask, Tensor denominator, float eps) -> "
      "(Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(topomask, CPU, m) {
  m.impl("normalised_weights", weights_cpu);
  m.impl("normalised_weights_backward", plain_weights_backward);
}

TORCH_LIBRARY_IMPL(topomask, Meta, m) {
  m.impl("normalised_weights", weights_meta);
  m.impl("normalised_weights_backward", weights_backward_meta);
}

TORCH_LIBRARY_IMPL(topomask, Autograd, m) {
  m.impl("normalised_weights", weights_autograd);
  m.impl("normalised_weights_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace topomask

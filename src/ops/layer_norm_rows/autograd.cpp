#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/layer_norm_rows/op.h"

namespace topomask::ops::layer_norm_rows {

namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class Norm : public torch::autograd::Function<Norm> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight, const Tensor& bias,
                               double eps, at::ScalarType dtype) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [out, mean, rstd] = layer_norm_rows::forward(x, weight, bias, eps, dtype);
    ctx->save_for_backward({x, weight, mean, rstd});
    ctx->mark_non_differentiable({mean, rstd});
    ctx->set_materialize_grads(false);
    return {out, mean, rstd};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    if (!grads[0].defined()) return {{}, {}, {}, {}, {}};
    const variable_list saved = ctx->get_saved_variables();
    const auto [x, weight, bias] = layer_norm_rows::backward(grads[0], saved[0], saved[1], saved[2], saved[3]);
    return {x, weight, bias, {}, {}};
  }
};

Three forward_autograd(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, at::ScalarType dtype) {
  const variable_list made = Norm::apply(x, weight, bias, eps, dtype);
  return {made[0], made[1], made[2]};
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, Autograd, m) {
  m.impl("layer_norm_rows", forward_autograd);
  m.impl("layer_norm_rows_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace topomask::ops::layer_norm_rows

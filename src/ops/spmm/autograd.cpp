#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/spmm/op.h"

namespace topomask::ops::spmm {

namespace {

using at::Tensor;
using at::TensorList;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// y = M·x, or Mᵀ·x: each is the other's gradient in x.
template <bool kTransposed>
class Multiply : public torch::autograd::Function<Multiply<kTransposed>> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& values, const Tensor& x, TensorList pattern) {
    at::AutoDispatchBelowADInplaceOrView below;
    variable_list saved{values, x};
    saved.insert(saved.end(), pattern.begin(), pattern.end());
    ctx->save_for_backward(std::move(saved));
    return kTransposed ? multiply_transposed(values, x, pattern) : multiply(values, x, pattern);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &values = saved[0], &x = saved[1], &grad = grads[0];
    const TensorList pattern = TensorList(saved).slice(2);
    variable_list result(saved.size());
    if (ctx->needs_input_grad(0)) {
      result[0] = sddmm(kTransposed ? x : grad, kTransposed ? grad : x, pattern, values.sym_size(0));
    }
    if (ctx->needs_input_grad(1)) {
      result[1] = kTransposed ? multiply(values, grad, pattern) : multiply_transposed(values, grad, pattern);
    }
    return result;
  }
};

template <bool kTransposed>
Tensor multiply_autograd(const Tensor& values, const Tensor& x, TensorList pattern) {
  return Multiply<kTransposed>::apply(values, x, pattern);
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, Autograd, m) {
  m.impl("spmm", multiply_autograd<false>);
  m.impl("spmm_transposed", multiply_autograd<true>);
  m.impl("sddmm", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace topomask::ops::spmm

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/factored_product/op.h"

namespace topomask::ops::factored_product {

namespace {

using at::Tensor;
using at::TensorList;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class Product : public torch::autograd::Function<Product> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                               const Tensor& left_values, TensorList left, const Tensor& right_values,
                               TensorList right) {
    at::AutoDispatchBelowADInplaceOrView below;
    variable_list saved{q, k, v, left_values};
    saved.insert(saved.end(), left.begin(), left.end());
    saved.push_back(right_values);
    saved.insert(saved.end(), right.begin(), right.end());
    ctx->save_for_backward(std::move(saved));
    ctx->saved_data["left"] = static_cast<int64_t>(left.size());
    const auto [numerator, denominator] = multiply(q, k, v, left_values, left, right_values, right);
    return {numerator, denominator};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const auto left_size = static_cast<size_t>(ctx->saved_data["left"].toInt()), at_right = 4 + left_size;
    const TensorList left = TensorList(saved).slice(4, left_size), right = TensorList(saved).slice(at_right + 1);
    const bool want_left = ctx->needs_input_grad(3), want_right = ctx->needs_input_grad(at_right);
    const auto [grad_q, grad_k, grad_v, grad_left, grad_right] =
        factored_product::backward(grads[0], grads[1], saved[0], saved[1], saved[2], saved[3], left, saved[at_right],
                                   right, want_left, want_right);
    variable_list result(saved.size());
    result[0] = grad_q;
    result[1] = grad_k;
    result[2] = grad_v;
    if (want_left) result[3] = grad_left;
    if (want_right) result[at_right] = grad_right;
    return result;
  }
};

Two multiply_autograd(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& left_values, TensorList left,
                      const Tensor& right_values, TensorList right) {
  const auto out = Product::apply(q, k, v, left_values, left, right_values, right);
  return {out[0], out[1]};
}

/// q, k and v take the autocast dtype (float64 excepted); values keep the accumulation type.
template <c10::DispatchKey kKey, c10::DeviceType kDevice>
Two multiply_autocast(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& left_values, TensorList left,
                      const Tensor& right_values, TensorList right) {
  c10::impl::ExcludeDispatchKeyGuard no_autocast(kKey);
  using at::autocast::cached_cast;
  const at::ScalarType dtype = at::autocast::get_autocast_dtype(kDevice);
  return multiply(cached_cast(dtype, q, kDevice), cached_cast(dtype, k, kDevice), cached_cast(dtype, v, kDevice),
                  cached_cast(at::kFloat, left_values, kDevice), left, cached_cast(at::kFloat, right_values, kDevice),
                  right);
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, Autograd, m) {
  m.impl("factored_product", multiply_autograd);
  m.impl("factored_product_backward", torch::autograd::autogradNotImplementedFallback());
}

TORCH_LIBRARY_IMPL(topomask, AutocastCPU, m) {
  m.impl("factored_product", multiply_autocast<c10::DispatchKey::AutocastCPU, at::kCPU>);
}

TORCH_LIBRARY_IMPL(topomask, AutocastCUDA, m) {
  m.impl("factored_product", multiply_autocast<c10::DispatchKey::AutocastCUDA, at::kCUDA>);
}

}  // namespace topomask::ops::factored_product

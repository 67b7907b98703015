#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/relu_qkv/op.h"

namespace topomask::ops::relu_qkv {

namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class Split : public torch::autograd::Function<Split> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& qkv, double offset) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({qkv});
    const Tensor features = relu_qkv::forward(qkv, offset);
    const auto heads_first = [](const Tensor& x, int64_t part) { return x.select(2, part).transpose(1, 2); };
    return {heads_first(features, 0), heads_first(features, 1), heads_first(qkv, 2)};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return {relu_qkv::backward(grads[0], grads[1], grads[2], ctx->get_saved_variables()[0]), Tensor()};
  }
};

}  // namespace

Parts split(const Tensor& qkv, double offset) {
  const variable_list parts = Split::apply(qkv, offset);
  return {parts[0], parts[1], parts[2]};
}

TORCH_LIBRARY_IMPL(topomask, Autograd, m) {
  m.impl("relu_qkv", torch::autograd::autogradNotImplementedFallback());
  m.impl("relu_qkv_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace topomask::ops::relu_qkv

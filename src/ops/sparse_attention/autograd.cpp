#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/sparse_attention/op.h"

// Gradients and autocast of sparse_attention_forward.

namespace topomask::ops::sparse_attention {

namespace {

using at::Tensor;
using at::TensorList;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class Attention : public torch::autograd::Function<Attention> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                               const Tensor& values, TensorList pattern, bool softmax, double scale, double eps,
                               bool keep_scores, bool nodes_first) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [out, row_max, denominator, scores] =
        sparse_attention::forward(q, k, v, values, pattern, softmax, scale, eps, keep_scores, nodes_first);
    variable_list saved{q, k, v, values, out, row_max, denominator, scores};
    saved.insert(saved.end(), pattern.begin(), pattern.end());
    ctx->save_for_backward(std::move(saved));
    ctx->mark_non_differentiable({row_max, denominator, scores});
    ctx->set_materialize_grads(false);  // no zeros in the shape of the scores
    ctx->saved_data["softmax"] = softmax;
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["eps"] = eps;
    return {out, row_max, denominator, scores};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const TensorList results = TensorList(saved).slice(4, 4), pattern = TensorList(saved).slice(8);
    variable_list result(4 + pattern.size() + 5);
    if (!grads[0].defined()) return result;
    const bool want_values = ctx->needs_input_grad(3);
    const auto [grad_q, grad_k, grad_v, grad_values] = sparse_attention::backward(
        grads[0], saved[0], saved[1], saved[2], saved[3], pattern, results, ctx->saved_data["softmax"].toBool(),
        ctx->saved_data["scale"].toDouble(), ctx->saved_data["eps"].toDouble(), want_values);
    result[0] = grad_q;
    result[1] = grad_k;
    result[2] = grad_v;
    if (want_values) result[3] = grad_values;
    return result;
  }
};

Four forward_autograd(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values, TensorList pattern,
                      bool softmax, double scale, double eps, bool keep_scores, bool nodes_first) {
  const auto out = Attention::apply(q, k, v, values, pattern, softmax, scale, eps, keep_scores, nodes_first);
  return {out[0], out[1], out[2], out[3]};
}

/// q, k and v take the autocast dtype (float64 excepted); values keep the accumulation type.
template <c10::DispatchKey kKey, c10::DeviceType kDevice>
Four forward_autocast(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values, TensorList pattern,
                      bool softmax, double scale, double eps, bool keep_scores, bool nodes_first) {
  c10::impl::ExcludeDispatchKeyGuard no_autocast(kKey);
  const auto cast = [](const Tensor& nodes) {
    return at::autocast::cached_cast(at::autocast::get_autocast_dtype(kDevice), nodes, kDevice);
  };
  return forward(cast(q), cast(k), cast(v), at::autocast::cached_cast(at::kFloat, values, kDevice), pattern, softmax,
                 scale, eps, keep_scores, nodes_first);
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, Autograd, m) {
  m.impl("sparse_attention_forward", forward_autograd);
  m.impl("sparse_attention_backward", torch::autograd::autogradNotImplementedFallback());
}

TORCH_LIBRARY_IMPL(topomask, AutocastCPU, m) {
  m.impl("sparse_attention_forward", forward_autocast<c10::DispatchKey::AutocastCPU, at::kCPU>);
}

TORCH_LIBRARY_IMPL(topomask, AutocastCUDA, m) {
  m.impl("sparse_attention_forward", forward_autocast<c10::DispatchKey::AutocastCUDA, at::kCUDA>);
}

}  // namespace topomask::ops::sparse_attention

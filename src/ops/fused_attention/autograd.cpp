#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/call.h"
#include "ops/fused_attention/arguments.h"

namespace topomask::ops::fused_attention {

namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class Attention : public torch::autograd::Function<Attention> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                               const Tensor& values, const Tensor& right, const Tensor& index, int64_t kind,
                               int64_t shift, int64_t globals, int64_t weighting, double scale, double eps,
                               bool nodes_first) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [out, denominator, largest] = call<"fused_attention", ForwardSignature>(
        q, k, v, values, right, index, kind, shift, globals, weighting, scale, eps, nodes_first);
    ctx->save_for_backward({q, k, v, values, right, index, out, denominator, largest});
    ctx->mark_non_differentiable({denominator, largest});
    ctx->saved_data["integers"] = std::vector<int64_t>{kind, shift, globals, weighting};
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["eps"] = eps;
    return {out, denominator, largest};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const auto integers = ctx->saved_data["integers"].toIntVector();
    const bool want_mask = ctx->needs_input_grad(3) || ctx->needs_input_grad(4);
    const auto [q, k, v, values, right] = call<"fused_attention_backward", BackwardSignature>(
        grads[0], saved[0], saved[1], saved[2], saved[3], saved[4], saved[5], saved[6], saved[7], saved[8], integers[0],
        integers[1], integers[2], integers[3], ctx->saved_data["scale"].toDouble(), ctx->saved_data["eps"].toDouble(),
        want_mask);
    variable_list result(13);
    result[0] = q;
    result[1] = k;
    result[2] = v;
    if (ctx->needs_input_grad(3)) result[3] = values;
    if (ctx->needs_input_grad(4)) result[4] = right;
    return result;
  }
};

Three forward_autograd(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values, const Tensor& right,
                       const Tensor& index, int64_t kind, int64_t shift, int64_t globals, int64_t weighting,
                       double scale, double eps, bool nodes_first) {
  const auto result =
      Attention::apply(q, k, v, values, right, index, kind, shift, globals, weighting, scale, eps, nodes_first);
  return {result[0], result[1], result[2]};
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, Autograd, m) {
  m.impl("fused_attention", forward_autograd);
  m.impl("fused_attention_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace topomask::ops::fused_attention

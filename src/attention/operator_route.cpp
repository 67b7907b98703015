#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "attention/routes.h"
#include "core/checks.h"
#include "core/mask_holder.h"

namespace topomask {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Features per slice: enough columns to keep M·X busy, few enough that a slice is a small multiple of v.
constexpr int64_t kSliceFeatures = 8;

/// Rows [.., S] ⊗ [.., c] as [B, H, N, S·c].
at::Tensor outer_columns(const at::Tensor& a, const at::Tensor& b) {
  return (a.unsqueeze(-1) * b.unsqueeze(-2)).view({b.size(0), b.size(1), b.size(2), a.size(-1) * b.size(-1)});
}

/// Per node: [1, S]·[S, c], and [S, c]·[c, 1]. `x` is [B, H, N, S·c].
at::Tensor contract_features(const at::Tensor& a, const at::Tensor& x) {
  return at::matmul(a.unsqueeze(-2), x.view({x.size(0), x.size(1), x.size(2), a.size(-1), -1})).squeeze(-2);
}
at::Tensor contract_values(const at::Tensor& x, const at::Tensor& b) {
  return at::matmul(x.view({x.size(0), x.size(1), x.size(2), -1, b.size(-1)}), b.unsqueeze(-1)).squeeze(-1);
}

/// (M ⊙ q kᵀ) v by the lemma: M applied to the columns k_s ⊗ v, a slice of features at a time, forward and backward, so
/// that memory stays O(N·d). The backward pass computes M·X of each slice again.
struct StreamedProduct : torch::autograd::Function<StreamedProduct> {
  static at::Tensor forward(AutogradContext* ctx, const MaskPtr& mask, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, at::TensorList parameters) {
    variable_list saved{q, k, v};
    saved.insert(saved.end(), parameters.begin(), parameters.end());
    ctx->save_for_backward(std::move(saved));
    save_mask(ctx, mask);
    at::Tensor out = at::zeros_like(v);
    for (int64_t s = 0; s < q.size(-1); s += kSliceFeatures) {
      const int64_t width = std::min(kSliceFeatures, q.size(-1) - s);
      out += contract_features(q.narrow(-1, s, width), mask->apply(outer_columns(k.narrow(-1, s, width), v)));
    }
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const MaskPtr mask = saved_mask(ctx);
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2];
    const at::Tensor g = grads[0].contiguous();
    const auto parameters = static_cast<int64_t>(saved.size()) - 3;
    bool wants_parameters = false;
    for (int64_t p = 0; p < parameters; ++p) wants_parameters = wants_parameters || ctx->needs_input_grad(3 + p);

    at::Tensor dq = at::empty_like(q), dk = at::empty_like(k), dv = at::zeros_like(v);
    variable_list result(4 + parameters);
    for (int64_t s = 0; s < q.size(-1); s += kSliceFeatures) {
      const int64_t width = std::min(kSliceFeatures, q.size(-1) - s);
      const at::Tensor q_slice = q.narrow(-1, s, width), k_slice = k.narrow(-1, s, width);
      const at::Tensor x = outer_columns(k_slice, v), dy = outer_columns(q_slice, g);
      dq.narrow(-1, s, width).copy_(contract_values(mask->apply(x), g));
      const at::Tensor dx = mask->apply_transposed(dy);
      dk.narrow(-1, s, width).copy_(contract_values(dx, v));
      dv += contract_features(k_slice, dx);
      if (!wants_parameters) continue;
      const auto gradients = mask->parameter_gradients(x, dy);
      for (int64_t p = 0; p < parameters; ++p) {
        at::Tensor& total = result[4 + p];
        total = total.defined() ? total + gradients[p] : gradients[p];
      }
    }
    result[1] = dq;
    result[2] = dk;
    result[3] = dv;
    return result;
  }
};

/// The same through the mask's own product. Its derivatives are products of the same kind with the arguments turned:
/// ∂q = (M ⊙ g vᵀ)k, ∂k = (Mᵀ ⊙ v gᵀ)q, ∂v = (Mᵀ ⊙ k qᵀ)g.
struct OwnProduct : torch::autograd::Function<OwnProduct> {
  static at::Tensor forward(AutogradContext* ctx, const MaskPtr& mask, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v) {
    ctx->save_for_backward({q, k, v});
    save_mask(ctx, mask);
    return mask->masked_product(q, k, v, false);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const MaskPtr mask = saved_mask(ctx);
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2], g = grads[0].contiguous();
    return {at::Tensor(), mask->masked_product(g, v, k, false), mask->masked_product(v, g, q, true),
            mask->masked_product(k, q, g, true)};
  }
};

}  // namespace

at::Tensor operator_route(const Problem& problem) {
  const at::ScalarType type = accumulation_type(problem.q.scalar_type());
  const at::Tensor q = problem.q.to(type).contiguous(), k = problem.k.to(type).contiguous();
  const at::Tensor v = with_ones_column(problem.v);
  const auto parameters = problem.mask->parameters();
  const bool own = problem.mask->masked_product_work(q.size(-1), v.size(-1)).has_value();
  const at::Tensor product = own ? OwnProduct::apply(problem.mask, q, k, v)
                                 : StreamedProduct::apply(problem.mask, q, k, v, at::TensorList(parameters));
  return normalise_joint(product, problem.eps, problem.v.scalar_type());
}

}  // namespace topomask

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "attention/ops.h"
#include "attention/routes.h"
#include "core/checks.h"
#include "core/ordered_sums.h"
#include "ops/factored_product/op.h"
#include "ops/normalise.h"

namespace topomask {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Column a of a factor [N, r] or [H, N, r], as [N, 1] or [H, N, 1].
at::Tensor column(const at::Tensor& factor, int64_t a) {
  return factor.narrow(-1, a, 1);
}

/// Σ a·b over everything but the dimensions of a column of the factor.
at::Tensor reduce_to_column(const at::Tensor& a, const at::Tensor& b, const at::Tensor& factor) {
  const at::Tensor summed = node_dots(a, b);  // [H, N]
  return (factor.dim() == 3 ? summed : first_sums(summed)).unsqueeze(-1);
}

/// (M ⊙ q kᵀ) v for M = Φ₁Φ₂ᵀ with dense factors of rank r: one unmasked linear attention per feature, r·N·m·d in all,
/// and O(N·m) memory: the backward pass computes each feature's terms again.
struct DenseFactorProduct : torch::autograd::Function<DenseFactorProduct> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const at::Tensor& left, const at::Tensor& right) {
    ctx->save_for_backward({q, k, v, left, right});
    at::Tensor out = at::zeros_like(v);
    for (int64_t a = 0; a < left.size(-1); ++a) {
      const at::Tensor state = ordered_matmul((k * column(right, a)).mT(), v);
      out += ordered_matmul(q * column(left, a), state);
    }
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2], &left = saved[3], &right = saved[4], &g = grads[0];
    at::Tensor dq = at::zeros_like(q), dk = at::zeros_like(k), dv = at::zeros_like(v);
    const bool learnt = ctx->needs_input_grad(3) || ctx->needs_input_grad(4);
    at::Tensor dleft, dright;
    if (learnt) dleft = at::zeros_like(left), dright = at::zeros_like(right);
    for (int64_t a = 0; a < left.size(-1); ++a) {
      const at::Tensor qa = q * column(left, a), ka = k * column(right, a);
      const at::Tensor dqa = ordered_matmul(g, ordered_matmul(ka.mT(), v).mT());
      const at::Tensor dstate = ordered_matmul(qa.mT(), g);
      const at::Tensor dka = ordered_matmul(v, dstate.mT());
      dq.addcmul_(dqa, column(left, a).expand_as(dqa));
      dk.addcmul_(dka, column(right, a).expand_as(dka));
      dv += ordered_matmul(ka, dstate);
      if (!learnt) continue;
      column(dleft, a).copy_(reduce_to_column(dqa, q, left));
      column(dright, a).copy_(reduce_to_column(dka, k, right));
    }
    return {dq, dk, dv, dleft, dright};
  }
};

}  // namespace

std::tuple<at::Tensor, at::Tensor> factored_product(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                    const SparseMatrix& left, const SparseMatrix& right) {
  return ops::factored_product::multiply(q, k, v, left.values_by_head(), left.pattern->tensors(),
                                         right.values_by_head(), right.pattern->tensors());
}

at::Tensor features_route(const Problem& problem) {
  const auto factors = problem.mask->factors();
  TORCH_CHECK(factors, "attention: route must be one the mask offers, got features for mask ", problem.mask->name());
  if (factors->left.sparse) {
    const auto [numerator, denominator] =
        factored_product(problem.q, problem.k, problem.v, *factors->left.sparse, *factors->right.sparse);
    return ops::normalise(numerator, denominator, problem.eps).to(problem.v.scalar_type());
  }
  // Without a sum over features bfloat16 loses nothing that the products, which accumulate in float32, keep; rows of
  // multiples of 16 bytes are what tensor cores take without a detour.
  const bool keeps_bfloat16 =
      problem.q.is_cuda() && problem.q.scalar_type() == at::kBFloat16 && factors->left.dense.size(-1) == 1;
  const at::ScalarType type = keeps_bfloat16 ? at::kBFloat16 : accumulation_type(problem.q.scalar_type());
  // The factors of no mask are ones, made where they are needed: a copy from the CPU would wait for the GPU.
  const bool ones = problem.mask->counts().tiles == TileKind::ones;
  const at::TensorOptions options = problem.q.options().dtype(type);
  const auto factor = [&](const at::Tensor& dense) {
    return ones ? at::ones({problem.mask->size(), 1}, options) : dense.to(options);
  };
  const at::Tensor product = DenseFactorProduct::apply(
      problem.q.to(type), problem.k.to(type), with_ones_column(problem.v.to(type), problem.q.is_cuda() ? 8 : 1),
      factor(factors->left.dense), factor(factors->right.dense));
  return normalise_joint(product, problem);
}

}  // namespace topomask

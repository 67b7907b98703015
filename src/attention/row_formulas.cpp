#include "attention/row_formulas.h"

#include <ATen/ATen.h>

#include <limits>

#include "core/checks.h"
#include "core/largest_exponent.h"
#include "core/ordered_sums.h"
#include "ops/normalise.h"
#include "ops/normalised_weights/op.h"

namespace topomask {
namespace {

/// On the CPU the same for any number of threads.
at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  return a.is_cpu() ? ordered_matmul(a, b) : at::matmul(a, b);
}

at::Tensor additive(const at::Tensor& scores, const at::Tensor& bias, const at::Tensor& v) {
  return product(ordered_softmax(ordered_add(scores, bias)), v);
}

/// Weights M ⊙ exp(S − max). ∂/∂M_ij = exp(s_ij − max_i)·… does not vanish where M_ij = 0, so every entry has its
/// exponential; the maximum is over M_ij ≠ 0 alone, since any other would let the weights of a row underflow.
at::Tensor multiplicative(const at::Tensor& scores, const at::Tensor& mask, const at::Tensor& v, double eps) {
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  const at::Tensor largest = scores.detach().masked_fill(mask == 0, kNone).amax(-1, true);
  const at::Tensor max = largest.masked_fill(largest == kNone, 0.0);  // a row without any entry
  const double limit = scores.scalar_type() == at::kDouble ? kLargestExponent<double> : kLargestExponent<float>;
  const at::Tensor weights = ordered_mul(ordered_exp((scores - max).clamp_max(limit)), mask);
  return ops::normalise(product(weights, v), weights.sum(-1), eps);
}

/// On a GPU the tensor cores take rows of multiples of 16 bytes, and bfloat16 without a conversion. The weights are
/// then rounded to bfloat16 between the two products, as fused softmax attention does.
at::Tensor kernel_on_gpu(const at::Tensor& q, const at::Tensor& k_in, const at::Tensor& v_in, const at::Tensor& mask_in,
                         double eps) {
  const at::ScalarType given = q.scalar_type(), wide = accumulation_type(given);
  const at::ScalarType type = given == at::kBFloat16 ? given : wide;
  const int64_t padding = (8 - k_in.size(-2) % 8) % 8;
  const auto padded = [&](const at::Tensor& x, at::IntArrayRef by) {
    return padding > 0 ? at::constant_pad_nd(x, by) : x;
  };
  const at::Tensor k = padded(k_in.to(type), {0, 0, 0, padding}), v = padded(v_in.to(type), {0, 0, 0, padding});
  at::Tensor mask = padded(mask_in, {0, padding});
  if (mask.dim() == 2) mask = mask.unsqueeze(0);
  const at::Tensor weights = ops::normalised_weights::weights(at::matmul(q.to(type), k.mT()), mask, eps);
  return at::matmul(weights, v);
}

at::Tensor kernel_on_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
                         double eps) {
  const at::Tensor weights = ordered_mul(ordered_matmul(q, k.mT()), mask);
  return ops::normalise(ordered_matmul(weights, v), weights.sum(-1), eps);
}

}  // namespace

at::Tensor attend_rows(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
                       const RowFormula& formula) {
  const at::ScalarType type = accumulation_type(q.scalar_type());
  if (formula.weighting == Weighting::kernel) {
    const at::Tensor out = q.is_cuda() ? kernel_on_gpu(q, k, v, mask, formula.eps)
                                       : kernel_on_cpu(q.to(type), k.to(type), v.to(type), mask, formula.eps);
    return out.to(v.scalar_type());
  }
  const at::Tensor scores = product(q.to(type) * formula.scale, k.to(type).mT());
  const at::Tensor out = formula.weighting == Weighting::additive
                             ? additive(scores, mask, v.to(type))
                             : multiplicative(scores, mask, v.to(type), formula.eps);
  return out.to(v.scalar_type());
}

}  // namespace topomask

#include <ATen/ATen.h>

#include "attention/fused.h"
#include "attention/inputs.h"
#include "attention/ops.h"
#include "attention/routes.h"
#include "core/checks.h"
#include "core/largest_exponent.h"
#include "core/ordered_sums.h"
#include "core/plain_ops.h"
#include "ops/normalise.h"
#include "topomask/attention.h"

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

}  // namespace

at::Tensor softmax_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const MaskPtr& mask,
                             const SoftmaxOptions& options) {
  const Inputs inputs("softmax_attention", q, k, v, mask, options.eps, options.memory_budget);
  TORCH_CHECK(options.route == Route::automatic || options.route == Route::dense || options.route == Route::sparse ||
                  options.route == Route::fused,
              "softmax_attention: route must be automatic, fused, dense or sparse, got ", to_string(options.route));
  TORCH_CHECK(
      options.mask == SoftmaxMask::multiplicative || options.route != Route::sparse,
      "softmax_attention: route must be fused or dense for an additive mask, where every pair attends, got sparse");
  if (options.scale) check_finite("softmax_attention", "scale", *options.scale);
  if (inputs.v.numel() == 0) return at::zeros_like(v);
  const NoAutocast no_autocast;  // the dtypes of the inputs settle it
  const double scale = options.scale.value_or(1.0 / std::sqrt(static_cast<double>(std::max<int64_t>(q.size(-1), 1))));
  Route route = options.route;
  if (route == Route::automatic) {
    route =
        plan_softmax(*mask, inputs.workload(q.size(-1)), options.mask == SoftmaxMask::additive, options.memory_budget)
            .route;
  }
  const at::Tensor fq = inputs.dims.fold(inputs.q), fk = inputs.dims.fold(inputs.k), fv = inputs.dims.fold(inputs.v);
  if (route == Route::sparse) {
    const auto matrix = mask->sparse();
    TORCH_CHECK(matrix, "softmax_attention: route must be one the mask offers, got sparse for mask ", mask->name());
    return inputs.dims.unfold(std::get<0>(sparse_softmax_attention(fq, fk, fv, *matrix, scale, options.eps)));
  }
  if (route == Route::fused) {
    const Weighting weighting = options.mask == SoftmaxMask::additive ? Weighting::additive : Weighting::multiplicative;
    const MaskTiles tiles = tiles_for("softmax_attention", fq, fv.size(-1), *mask, weighting);
    return inputs.dims.unfold(std::get<0>(ops::fused_attention::forward(
        fq, fk, fv, tiles, {.weighting = weighting, .scale = scale, .eps = options.eps})));
  }
  const at::ScalarType type = accumulation_type(inputs.q.scalar_type());
  const at::Tensor scores = product(fq.to(type) * scale, fk.to(type).mT());
  const at::Tensor matrix = mask->dense().to(fq.device(), type);
  const at::Tensor out = options.mask == SoftmaxMask::additive
                             ? additive(scores, matrix, fv.to(type))
                             : multiplicative(scores, matrix, fv.to(type), options.eps);
  return inputs.dims.unfold(out.to(inputs.v.scalar_type()));
}

}  // namespace topomask

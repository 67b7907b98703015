#include <ATen/ATen.h>

#include "attention/cost_model.h"
#include "attention/fused.h"
#include "attention/inputs.h"
#include "attention/ops.h"
#include "attention/row_formulas.h"
#include "attention/strips.h"
#include "core/checks.h"
#include "core/plain_ops.h"
#include "topomask/attention.h"

namespace topomask {
at::Tensor softmax_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const MaskPtr& mask,
                             const SoftmaxOptions& options) {
  const Inputs inputs("softmax_attention", q, k, v, mask, options.eps, options.memory_budget);
  TORCH_CHECK(options.route == Route::automatic || options.route == Route::dense || options.route == Route::sparse ||
                  options.route == Route::fused || options.route == Route::strips,
              "softmax_attention: route must be automatic, fused, dense, strips or sparse, got ",
              to_string(options.route));
  TORCH_CHECK(options.mask == SoftmaxMask::multiplicative || options.route != Route::sparse,
              "softmax_attention: route must be fused, strips or dense for an additive mask, where every pair attends, "
              "got sparse");
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
  const RouteLayout layout(inputs, route);
  const at::Tensor fq = layout.fold(inputs.q), fk = layout.fold(inputs.k), fv = layout.fold(inputs.v);
  if (route == Route::sparse) {
    const auto matrix = mask->sparse();
    TORCH_CHECK(matrix, "softmax_attention: route must be one the mask offers, got sparse for mask ", mask->name());
    return layout.unfold(std::get<0>(sparse_softmax_attention(fq, fk, fv, *matrix, scale, options.eps)));
  }
  const Weighting weighting = options.mask == SoftmaxMask::additive ? Weighting::additive : Weighting::multiplicative;
  if (route == Route::fused) {
    const MaskTiles tiles = tiles_for("softmax_attention", fq, fv.size(-1), *mask, weighting);
    return layout.unfold(std::get<0>(ops::fused_attention::forward(
        fq, fk, fv, tiles,
        {.weighting = weighting, .scale = scale, .eps = options.eps, .nodes_first = layout.nodes_first()})));
  }
  const RowFormula formula{weighting, scale, options.eps};
  if (route == Route::strips)
    return layout.unfold(attend_in_strips(fq, fk, fv, mask, formula,
                                          room_for_sparse_form(inputs.workload(q.size(-1)), options.memory_budget)));
  const at::ScalarType type = accumulation_type(inputs.q.scalar_type());
  return layout.unfold(attend_rows(fq, fk, fv, mask->dense().to(fq.device(), type), formula));
}

}  // namespace topomask

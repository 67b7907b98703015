#include "topomask/attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include "attention/cost_model.h"
#include "attention/inputs.h"
#include "attention/routes.h"
#include "core/checks.h"
#include "core/plain_ops.h"

namespace topomask {
namespace {

at::Tensor run(Route route, const Problem& problem) {
  switch (route) {
    case Route::dense:
      return dense_route(problem);
    case Route::sparse:
      return sparse_route(problem);
    case Route::features:
      return features_route(problem);
    case Route::operator_:
      return operator_route(problem);
    case Route::fused:
      return fused_route(problem);
    case Route::strips:
      return strips_route(problem);
    case Route::automatic:
      break;
  }
  TORCH_INTERNAL_ASSERT(false, "no route");
}

/// φ(x) in the dtype of x: a map may compute in another one, as exp does under autocast.
at::Tensor features_of(const char* name, const at::Tensor& x, const at::Tensor& features) {
  TORCH_CHECK(features.defined() && features.dim() == x.dim() && features.device() == x.device() &&
                  features.sizes().slice(0, x.dim() - 1) == x.sizes().slice(0, x.dim() - 1),
              "attention: features must keep every dimension of ", name, " but the last, ", describe(x), ", got ",
              describe(features));
  return features.to(x.scalar_type());
}

}  // namespace

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const MaskPtr& mask,
                     const AttentionOptions& options) {
  const Inputs inputs("attention", q, k, v, mask, options.eps, options.memory_budget);
  const at::Tensor features_q = features_of("q", inputs.q, options.features.queries(inputs.q)),
                   features_k = features_of("k", inputs.k, options.features.keys(inputs.k));
  TORCH_CHECK(features_q.size(-1) == features_k.size(-1), "attention: features must be as many of k as of q, ",
              features_q.size(-1), ", got ", features_k.size(-1));
  if (inputs.v.numel() == 0) return at::zeros_like(v);
  const NoAutocast no_autocast;  // the dtypes of the inputs settle it
  const Workload workload = inputs.workload(features_q.size(-1));
  const Route route =
      options.route != Route::automatic ? options.route : plan_attention(*mask, workload, options.memory_budget).route;
  const RouteLayout layout(inputs, route);
  return layout.unfold(
      run(route, {layout.fold(features_q), layout.fold(features_k), layout.fold(inputs.v), mask, options.eps,
                  room_for_sparse_form(workload, options.memory_budget), layout.nodes_first()}));
}

Plan explain(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const MaskPtr& mask,
             const AttentionOptions& options) {
  const Inputs inputs("explain", q, k, v, mask, options.eps, options.memory_budget);
  const at::NoGradGuard no_grad;
  // One row tells how many features the map makes.
  const at::Tensor row = inputs.q.narrow(-2, 0, std::min<int64_t>(1, inputs.q.size(-2)));
  return plan_attention(*mask, inputs.workload(options.features(row).size(-1)), options.memory_budget);
}

}  // namespace topomask

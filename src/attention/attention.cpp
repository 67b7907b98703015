#include "topomask/attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include "attention/inputs.h"
#include "attention/routes.h"
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
    case Route::automatic:
      break;
  }
  TORCH_INTERNAL_ASSERT(false, "no route");
}

}  // namespace

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const MaskPtr& mask,
                     const AttentionOptions& options) {
  const Inputs inputs("attention", q, k, v, mask, options.eps, options.memory_budget);
  const at::Tensor features_q = options.features.queries(inputs.q), features_k = options.features.keys(inputs.k);
  if (inputs.v.numel() == 0) return at::zeros_like(v);
  const NoAutocast no_autocast;  // the dtypes of the inputs settle it
  const Route route = options.route != Route::automatic
                          ? options.route
                          : plan_attention(*mask, inputs.workload(features_q.size(-1)), options.memory_budget).route;
  // The kernels of these routes take a mask of one head for any number of heads, and rows with any strides: folding the
  // heads into the batch would copy tensors that are nodes first in memory.
  const bool as_they_are = q.is_cuda() && features_q.dim() == 4 && (route == Route::fused || route == Route::sparse);
  const auto fold = [&](const at::Tensor& x) { return as_they_are ? x : inputs.dims.fold(x); };
  const bool nodes_first = as_they_are && inputs.v.stride(1) < inputs.v.stride(2);
  const at::Tensor out =
      run(route, {fold(features_q), fold(features_k), fold(inputs.v), mask, options.eps, nodes_first});
  return as_they_are ? out : inputs.dims.unfold(out);
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

#include "graph/weights.h"

#include <ATen/ATen.h>

#include "core/checks.h"

namespace topomask {

at::Tensor checked_weights(const char* op, const at::Tensor& weights, int64_t entries) {
  TORCH_CHECK(weights.defined() && is_real(weights.scalar_type()) && weights.dim() == 1 && weights.size(0) == entries &&
                  weights.device().is_cpu(),
              op, ": weights must be float32 or float64 [", entries, "] on cpu, got ", describe(weights));
  const at::Tensor contiguous = weights.contiguous();
  AT_DISPATCH_FLOATING_TYPES(contiguous.scalar_type(), "checked_weights", [&] {
    const scalar_t* weight = contiguous.const_data_ptr<scalar_t>();
    for (int64_t e = 0; e < entries; ++e) {
      TORCH_CHECK(std::isfinite(weight[e]), op, ": weights must be finite, got ", weight[e], " at position ", e);
    }
  });
  return contiguous;
}

void check_constant_weights(const char* op, const char* argument, const Graph& graph, const char* reason) {
  TORCH_CHECK(!graph.weights().requires_grad(), op, ": ", argument,
              " must have weights that do not require grad, got weights that do: ", reason,
              "; detach them with graph.with_weights(graph.weights().detach())");
}

Graph with_constant_weights(const Graph& graph) {
  return graph.weights().requires_grad() ? graph.with_weights(graph.weights().detach()) : graph;
}

}  // namespace topomask

#pragma once

#include <ATen/ATen.h>

#include "support/mask_contract.h"
#include "topomask/graph.h"

namespace topomask::testing {

/// Σ_k α_k W^k by dense powers, differentiable in α [K] or [H, K] and in the graph's weights.
inline at::Tensor dense_series(const Graph& graph, const at::Tensor& alpha) {
  const at::Tensor w = graph.matrix().dense();
  at::Tensor power = at::eye(graph.num_nodes(), w.options()), sum = at::zeros_like(power);
  for (int64_t k = 0; k < alpha.size(-1); ++k) {
    sum = sum + alpha.select(-1, k).unsqueeze(-1).unsqueeze(-1) * power;
    power = at::matmul(power, w);
  }
  return sum;
}

/// Positive, learnable.
inline at::Tensor random_coefficients(at::IntArrayRef shape) {
  return (normal(shape, 7).abs() + 0.1).requires_grad_();
}

}  // namespace topomask::testing

#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "support/compare.h"
#include "support/mask_contract.h"
#include "topomask/graph.h"
#include "topomask/mask.h"
#include "topomask/walks.h"

namespace topomask::testing {

/// R_t [max_hops + 1, N, N] from the triples of a table, the plain way; `counts` in place of loads for ad-hoc walks.
inline at::Tensor hop_matrices(const WalkTable& walks, bool counts = false) {
  const int64_t n = walks.num_nodes(), hops = walks.max_hops() + 1;
  const at::Tensor rows = at::repeat_interleave(at::arange(n), walks.offsets().diff());
  const at::Tensor place = (walks.hops().to(at::kLong) * n + rows) * n + walks.columns().to(at::kLong);
  const at::Tensor loads = (counts ? walks.counts() : walks.loads()).to(at::kDouble);
  return at::zeros({hops * n * n}, at::kDouble).index_add(0, place, loads).view({hops, n, n}) /
         static_cast<double>(walks.walkers());
}

/// Σ_t f_t R_t, [N, N] or [H, N, N]; differentiable in f.
inline at::Tensor combine(const at::Tensor& f, const at::Tensor& matrices) {
  return at::tensordot(f, matrices.narrow(0, 0, f.size(-1)), {f.dim() - 1}, {0});
}

inline at::Tensor dense_features(const WalkTable& walks, const at::Tensor& f, bool counts = false) {
  return combine(f, hop_matrices(walks, counts));
}

/// W^t [hops + 1, N, N].
inline at::Tensor powers(const Graph& graph, int64_t hops) {
  const at::Tensor w = graph.matrix().dense().to(at::kDouble);
  std::vector<at::Tensor> result{at::eye(graph.num_nodes(), at::kDouble)};
  for (int64_t t = 0; t < hops; ++t) result.push_back(at::matmul(result.back(), w));
  return at::stack(result);
}

inline Graph petersen() {
  const at::Tensor i = at::arange(5);
  return Graph::from_edges(10, at::cat({i, i, i + 5}), at::cat({(i + 1) % 5, i + 5, (i + 2) % 5 + 5}));
}

/// A weighted directed graph with a dead end, a self-loop, a hub and a negative weight.
inline Graph digraph() {
  const at::Tensor source = at::tensor({0, 0, 0, 0, 1, 1, 2, 2, 3, 4, 5, 5, 6, 6}, at::kLong);
  const at::Tensor target = at::tensor({1, 2, 3, 4, 1, 2, 0, 5, 0, 5, 0, 6, 7, 3}, at::kLong);
  const at::Tensor weights = at::tensor({.3, .2, -.1, .4, .25, .3, .35, .2, .5, .3, .2, .4, .3, .1}, at::kDouble);
  return Graph::from_edges(8, source, target, weights, {.directed = true});
}

/// M and its gradient in the parameters, by the sparse form and by products: the short form of expect_mask_is.
inline void expect_matrix_is(const MaskPtr& mask, const at::Tensor& reference, double tolerance = 1e-10) {
  const at::Tensor g = normal(reference.sizes(), 5);
  const auto want = torch::autograd::grad({reference}, mask->parameters(), {g}, /*retain_graph=*/true);
  std::vector<at::Tensor> forms{mask->Mask::dense()};
  if (const auto matrix = mask->sparse()) forms.push_back(matrix->dense());
  for (const at::Tensor& form : forms) {
    EXPECT_TRUE(close(form, reference, tolerance)) << mask->name();
    const auto got = gradients(form, g, mask->parameters());
    for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(close(got[i], want[i], tolerance, 1e-3)) << mask->name();
  }
}

}  // namespace topomask::testing

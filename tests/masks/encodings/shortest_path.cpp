#include <ATen/Parallel.h>

#include "masks/empty_mask.h"
#include "masks/grf/grf_testing.h"
#include "topomask/attention.h"
#include "topomask/encodings.h"

namespace topomask {
namespace {

using testing::close;
using testing::expect_mask_is;
using testing::normal;

/// b at the distances from powers of A + I, the plain way: the first k with ((A + I)^k)_ij > 0. Differentiable in bias.
at::Tensor reference(const Graph& graph, const at::Tensor& bias) {
  const int64_t nodes = graph.num_nodes(), none = bias.size(-1) - 1;
  const at::Tensor ones = at::ones({graph.num_entries()}, at::kDouble);
  const at::Tensor step = SparseMatrix{graph.pattern(), ones}.dense() + at::eye(nodes, at::kDouble);
  at::Tensor reached = at::eye(nodes, at::kDouble), place = at::full({nodes, nodes}, none, at::kLong);
  place.masked_fill_(reached > 0, 0);
  for (int64_t k = 1; k < nodes; ++k) {
    const at::Tensor now = (at::matmul(reached, step) > 0).to(at::kDouble);
    place.masked_fill_(now > reached, std::min(k, none - 1));
    reached = now;
  }
  return bias.index_select(-1, place.view(-1)).unflatten(-1, {nodes, nodes});
}

TEST(ShortestPathMask, IsTheBiasAtTheDistance) {
  const at::Tensor bias = normal({5}, 1).requires_grad_();  // far pairs share b₃; b₄: no path
  for (const Graph& graph : {Graph::erdos_renyi(31, 0.06, 2), testing::digraph(), Graph::path(11)}) {
    expect_mask_is(shortest_path_mask(graph, bias), reference(graph, bias));
    EXPECT_TRUE(shortest_path_mask(shortest_paths(graph), bias)->dense().equal(reference(graph, bias)));
  }
}

TEST(ShortestPathMask, TakesABiasPerHead) {
  const Graph graph = Graph::erdos_renyi(17, 0.1, 3);
  const at::Tensor bias = normal({9, 3}, 1).t().requires_grad_(), single = normal({1, 2}, 2).requires_grad_();
  expect_mask_is(shortest_path_mask(graph, bias), reference(graph, bias));
  expect_mask_is(shortest_path_mask(graph, single), reference(graph, single[0]));
  EXPECT_EQ(shortest_path_mask(graph, bias)->to(at::kFloat)->dense().sizes(), (std::vector<int64_t>{3, 17, 17}));
}

TEST(ShortestPathMask, AdditiveSoftmaxReachesEveryPair) {
  const Graph graph = Graph::erdos_renyi(30, 0.05, 5);
  const at::Tensor bias = at::tensor({0.5, 1.0, -0.3, -1.0, -1e4}, at::kDouble);
  const MaskPtr mask = shortest_path_mask(graph, bias);
  const at::Tensor q = normal({2, 30, 6}, 1), k = normal({2, 30, 6}, 2), v = normal({2, 30, 3}, 3);
  const at::Tensor scores = at::matmul(q, k.mT()) / std::sqrt(6.0);
  const at::Tensor out = softmax_attention(q, k, v, mask, {.mask = SoftmaxMask::additive});
  EXPECT_TRUE(close(out, at::matmul(at::softmax(scores + reference(graph, bias), -1), v), 1e-10));
  const at::Tensor unreachable = shortest_paths(graph) < 0;
  ASSERT_TRUE(unreachable.any().item<bool>());
  const at::Tensor excluded = scores.masked_fill(unreachable, -INFINITY) + reference(graph, bias);
  EXPECT_TRUE(close(out, at::matmul(at::softmax(excluded, -1), v), 1e-10)) << "a bias of -1e4 excludes a pair";
}

TEST(ShortestPathMask, WorksOnNoNodeAndOne) {
  const at::Tensor bias = normal({2}, 1).requires_grad_();
  testing::expect_empty(shortest_path_mask(Graph::path(0), bias));
  expect_mask_is(shortest_path_mask(Graph::path(1), bias), reference(Graph::path(1), bias));
}

TEST(ShortestPaths, AreGridDistancesForAnyNumberOfThreads) {
  const Graph grid = Graph::grid({13, 17});
  const at::Tensor i = at::arange(13 * 17, at::kInt), row = i.div(17, "floor"), column = i % 17;
  const at::Tensor expected = (row.unsqueeze(1) - row).abs() + (column.unsqueeze(1) - column).abs();
  const int threads = at::get_num_threads();
  for (const int count : {1, 3}) {
    at::set_num_threads(count);
    EXPECT_TRUE(shortest_paths(grid).equal(expected));
  }
  at::set_num_threads(threads);
}

TEST(ShortestPaths, AndTheirMaskRefuseBadArguments) {
  EXPECT_ERROR(shortest_paths(Graph::path(11), {.max_entries = 120}),
               "shortest_paths: graph must have at most max_entries = 120 pairs of nodes, got 11 nodes");
  EXPECT_EQ(shortest_paths(Graph::path(11), {.max_entries = 121}).numel(), 121);
  EXPECT_ERROR(shortest_path_mask(Graph::path(10'000), at::zeros({4})), "got 10000 nodes");
  EXPECT_ERROR(shortest_path_mask(Graph::path(3), at::zeros({1})),
               "shortest_path_mask: bias must have 2 to 32768 values, got Float[1]");
  EXPECT_ERROR(shortest_path_mask(Graph::path(3), at::zeros({32769})), "bias must have 2 to 32768 values");
  EXPECT_ERROR(shortest_path_mask(Graph::path(3), at::full({4}, -INFINITY)), "bias must be finite");
  EXPECT_ERROR(shortest_path_mask(Graph::path(3), at::zeros({4}, at::kHalf)), "bias must be Float or Double");
  EXPECT_ERROR(shortest_path_mask(at::zeros({3, 2}, at::kInt), at::zeros({4})),
               "shortest_path_mask: distances must be Int [N, N], got Int[3, 2]");
}

}  // namespace
}  // namespace topomask

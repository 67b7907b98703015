#include <ATen/Parallel.h>

#include "masks/encodings/empty_mask.h"
#include "masks/grf/grf_testing.h"
#include "ops/table_lookup/op.h"
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

TEST(DegreeEmbedding, IsARowOfTheTablePerNode) {
  const at::Tensor table = normal({3, 4}, 1).requires_grad_();
  const at::Tensor embedded = degree_embedding(Graph::star(5), table);
  EXPECT_TRUE(embedded.equal(table.index_select(0, at::tensor({2, 1, 1, 1, 1}, at::kLong)))) << "4 shares row 2";
  const at::Tensor gradient = testing::gradients(embedded, at::ones({5, 4}, at::kDouble), {table})[0];
  EXPECT_TRUE(close(gradient.select(1, 0), at::tensor({0., 4., 1.}, at::kDouble), 1e-15));
  EXPECT_EQ(degree_embedding(Graph::path(0), table).sizes(), (std::vector<int64_t>{0, 4}));
}

TEST(DegreeEmbedding, AddsInDegreesOfADirectedGraph) {
  const at::Tensor edges = at::tensor({0, 0, 1}, at::kLong), targets = at::tensor({1, 2, 2}, at::kLong);
  const Graph graph = Graph::from_edges(3, edges, targets, {}, {.directed = true});
  const at::Tensor out = normal({3, 2}, 1), in = normal({4, 2}, 2);
  const at::Tensor expected = at::stack({out[2] + in[0], out[1] + in[1], out[0] + in[2]});
  EXPECT_TRUE(close(degree_embedding(graph, out, in), expected, 1e-15));
}

TEST(DegreeEmbedding, RefusesBadTables) {
  const Graph graph = Graph::path(3);
  EXPECT_ERROR(degree_embedding(graph, at::zeros({3})),
               "degree_embedding: table must be Float or Double [max_degree + 1, C], got Float[3]");
  EXPECT_ERROR(degree_embedding(graph, at::zeros({0, 3})), "table must be Float or Double");
  EXPECT_ERROR(degree_embedding(graph, at::zeros({3, 2}), at::zeros({2})), "in_table must be Float or Double");
  EXPECT_ERROR(degree_embedding(graph, at::zeros({3, 2}), at::zeros({3, 4})),
               "in_table must be Float with 2 columns as table has, got Float[3, 4]");
}

TEST(TableLookup, IsLinearWithSumsAsItsGradient) {
  const at::Tensor index = at::tensor({0, 2, 2, 1, 7, -1}, at::kShort).view({2, 3});
  const at::Tensor table = normal({4, 3}, 1).t().slice(1, 0, 3).requires_grad_();  // [3, 3]
  const at::Tensor places = at::tensor({0, 2, 2, 1, 2, 2}, at::kLong);  // what lies outside reads the last value
  const at::Tensor expected = table.index_select(1, places).view({3, 2, 3});
  const at::Tensor actual = ops::table_lookup::lookup(table, index);
  EXPECT_TRUE(actual.equal(expected));
  const at::Tensor g = normal({3, 2, 3}, 2).requires_grad_();
  EXPECT_TRUE(close(testing::gradients(actual, g, {table})[0],
                    at::zeros({3, 3}, at::kDouble).index_add(1, places, g.view({3, 6})), 1e-14));
  const at::Tensor h = normal({3, 3}, 3);
  EXPECT_TRUE(close(testing::gradients(ops::table_lookup::sums(g, index, 3), h, {g})[0],
                    ops::table_lookup::lookup(h, index), 1e-14));
}

TEST(TableLookup, SumsAreExactEnoughAndDoNotDependOnThreads) {
  const at::Tensor index = at::arange(3'000'001).remainder(5).to(at::kShort);
  const at::Tensor grad = at::rand({1, 3'000'001}) + 1;
  const at::Tensor expected = at::zeros({5}, at::kDouble).index_add(0, index.to(at::kInt), grad[0].to(at::kDouble));
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor one = ops::table_lookup::sums(grad, index, 5);
  at::set_num_threads(3);
  EXPECT_TRUE(ops::table_lookup::sums(grad, index, 5).equal(one));
  at::set_num_threads(threads);
  EXPECT_TRUE(close(one[0], expected, 1e-7));
}

TEST(TableLookup, RefusesBadArguments) {
  const at::Tensor index = at::zeros({4}, at::kShort), table = at::zeros({2, 3});
  EXPECT_ERROR(ops::table_lookup::lookup(table, index.to(at::kLong)),
               "table_lookup: index must be int16 on cpu, got Long[4]");
  EXPECT_ERROR(ops::table_lookup::lookup(at::zeros({2, 0}), index),
               "table_lookup: table must be float32 or float64 [H, K], K >= 1, got Float[2, 0]");
  EXPECT_ERROR(ops::table_lookup::sums(at::zeros({2, 5}), index, 3),
               "table_sums: grad must be float32 or float64, [H, ...] with the shape of index [4]");
  EXPECT_ERROR(ops::table_lookup::sums(at::zeros({2, 4}), index, 0), "table_sums: size must be >= 1, got 0");
  EXPECT_ERROR(ops::table_lookup::sums(at::zeros({2, 4}), index.to(at::kLong), 3),
               "table_sums: index must be int16 on cpu");
}

}  // namespace
}  // namespace topomask

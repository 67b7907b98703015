#include "graph_testing.h"

namespace topomask {
namespace {

using namespace topomask::testing;

TEST(GraphBatch, IsBlockDiagonal) {
  const std::vector<Graph> graphs = {Graph::path(3).normalised(), Graph::path(0), Graph::star(4), Graph::path(1)};
  const GraphBatch batch(graphs);
  std::vector<at::Tensor> blocks;
  for (const Graph& graph : graphs) blocks.push_back(dense_adjacency(graph));
  EXPECT_TRUE(at::equal(dense_adjacency(batch.graph()), at::block_diag(blocks)));
  EXPECT_EQ(batch.size(), 4);
  EXPECT_EQ(batch.offsets(), (std::vector<int64_t>{0, 3, 3, 7, 8}));
  EXPECT_TRUE(at::equal(batch.membership(), ids({0, 0, 0, 2, 2, 2, 2, 3})));
  EXPECT_FALSE(batch.graph().directed());
}

TEST(GraphBatch, SplitGivesEveryGraphItsRows) {
  const std::vector<Graph> graphs = {Graph::path(3), Graph::path(0), Graph::cycle(5)};
  const GraphBatch batch(graphs);
  for (const at::Tensor& x : {at::rand({8, 2}), at::rand({2, 3, 8, 5}), at::rand({8, 3, 2}).transpose(0, 1)}) {
    const std::vector<at::Tensor> parts = batch.split(x);
    ASSERT_EQ(parts.size(), 3);
    EXPECT_EQ(parts[1].size(-2), 0);
    EXPECT_TRUE(at::equal(at::cat(parts, -2), x));
    EXPECT_TRUE(parts[2].is_alias_of(x));
  }
}

TEST(GraphBatch, OfNoGraphsHasNoNodes) {
  const GraphBatch batch(std::span<const Graph>{});
  EXPECT_EQ(batch.size(), 0);
  EXPECT_EQ(batch.graph().num_nodes(), 0);
  EXPECT_EQ(batch.membership().size(0), 0);
  EXPECT_TRUE(batch.split(at::rand({4, 0, 2})).empty());
}

TEST(GraphBatch, KeepsDirectionTypeAndGradients) {
  const at::Tensor w = at::ones({2}, at::kDouble).requires_grad_();
  const Graph arrows = Graph::from_edges(3, ids({0, 2}), ids({1, 1}), {}, {.directed = true}).with_weights(w);
  const std::vector<Graph> graphs = {arrows, arrows};
  const GraphBatch batch(graphs);
  EXPECT_TRUE(batch.graph().directed());
  batch.graph().weights().sum().backward();
  EXPECT_TRUE(at::equal(w.grad(), at::full({2}, 2., at::kDouble)));
}

TEST(GraphBatch, RefusesGraphsThatDoNotGoTogether) {
  const Graph arrow = Graph::from_edges(2, ids({0}), ids({1}), {}, {.directed = true});
  const std::vector<Graph> directions = {Graph::path(2), Graph::path(3), arrow};
  EXPECT_MESSAGE(GraphBatch(directions),
                 "GraphBatch: graphs must be all directed or none, got graph 0 undirected and graph 2 directed");
  const std::vector<Graph> types = {Graph::path(2), Graph::path(3).to(at::kDouble)};
  EXPECT_MESSAGE(GraphBatch(types),
                 "GraphBatch: graphs must have one weight dtype, got Float in graph 0 and Double in graph 1");
}

TEST(GraphBatch, SplitChecksTheNumberOfRows) {
  const std::vector<Graph> graphs = {Graph::path(3)};
  const GraphBatch batch(graphs);
  EXPECT_MESSAGE(batch.split(at::rand({2, 3})), "GraphBatch::split: x must be [..., N = 3, C], got Float[2, 3] on cpu");
  EXPECT_MESSAGE(batch.split(at::rand({3})), "GraphBatch::split: x must be [..., N = 3, C], got Float[3] on cpu");
}

}  // namespace
}  // namespace topomask

#include "data/graphs/graph_files.h"
#include "support/compare.h"

using namespace topomask;
using namespace topomask::testing;

namespace {

/// A directed path of three nodes, a weighted edge, and a star: rooted trees, so that parents are moved too.
GraphSet three_trees() {
  const at::Tensor parents = at::tensor({-1, 0, 1, -1, 3, -1, 5, 5, 5}, at::kLong);
  const Graph graph = Graph::forest(parents);
  const at::Tensor features = at::arange(18, at::kFloat).reshape({9, 2});
  return {.name = "trees",
          .graph = graph.with_weights(at::full({graph.num_entries()}, 0.5)),
          .offsets = at::tensor({0, 3, 5, 9}, at::kLong),
          .features = features,
          .labels = at::tensor({2, 0, 1}, at::kLong),
          .parents = parents,
          .classes = {"a", "b", "c"}};
}

at::Tensor dense(const Graph& graph) {
  return graph.matrix().dense();
}

}  // namespace

TEST(TakeGraphs, KeepsRowsAndOrder) {
  const GraphSet set = three_trees();
  const GraphSample sample = take(set, {2, 0});
  EXPECT_EQ(sample.graphs, 2);
  EXPECT_TRUE(sample.nodes.equal(at::tensor({5, 6, 7, 8, 0, 1, 2}, at::kLong)));
  EXPECT_TRUE(sample.membership.equal(at::tensor({0, 0, 0, 0, 1, 1, 1}, at::kLong)));
  EXPECT_TRUE(sample.labels.equal(at::tensor({1, 2}, at::kLong)));
  EXPECT_TRUE(sample.parents.equal(at::tensor({-1, 0, 0, 0, -1, 4, 5}, at::kLong)));
  EXPECT_TRUE(sample.features.equal(set.features.index_select(0, sample.nodes)));
  EXPECT_TRUE(dense(sample.graph).equal(dense(set.graph).index_select(0, sample.nodes).index_select(1, sample.nodes)));
}

TEST(TakeGraphs, TakesLabelsOfNodes) {
  GraphSet set = three_trees();
  set.node_labels = true;
  set.labels = at::arange(9);
  EXPECT_TRUE(take(set, {1, 2}).labels.equal(at::tensor({3, 4, 5, 6, 7, 8}, at::kLong)));
}

TEST(TakeGraphs, DoesNotMixGraphs) {
  const GraphSet set = three_trees();
  GraphSet changed = three_trees();
  changed.features = set.features.clone();
  changed.features.slice(0, 3, 5).fill_(-7);
  at::Tensor weights = set.graph.weights().clone();
  weights.slice(0, 4, 6).fill_(9);  // of the second graph
  changed.graph = set.graph.with_weights(weights);
  changed.labels = at::tensor({2, 2, 1}, at::kLong);
  const GraphSample before = take(set, {0, 1, 2}), after = take(changed, {0, 1, 2});
  const at::Tensor others = at::tensor({0, 1, 2, 5, 6, 7, 8}, at::kLong);
  EXPECT_TRUE(before.features.index_select(0, others).equal(after.features.index_select(0, others)));
  EXPECT_TRUE(dense(before.graph).index_select(0, others).equal(dense(after.graph).index_select(0, others)));
  EXPECT_FALSE(dense(before.graph).equal(dense(after.graph)));
  // No entry between two graphs.
  const at::Tensor same = before.membership.unsqueeze(0) == before.membership.unsqueeze(1);
  EXPECT_EQ(dense(before.graph).masked_fill(same, 0).abs().sum().item<double>(), 0);
}

TEST(TakeGraphs, TakesNoneAndTheSameTwice) {
  const GraphSet set = three_trees();
  const GraphSample none = take(set, {});
  EXPECT_EQ(none.graphs, 0);
  EXPECT_EQ(none.graph.num_nodes(), 0);
  EXPECT_EQ(none.features.sizes(), at::IntArrayRef({0, 2}));
  EXPECT_EQ(none.labels.size(0), 0);
  const GraphSample twice = take(set, {1, 1});
  EXPECT_TRUE(twice.parents.equal(at::tensor({-1, 0, -1, 2}, at::kLong)));
  EXPECT_EQ(twice.graph.num_edges(), 2);
}

TEST(TakeGraphs, RefusesGraphsThatAreNotThere) {
  EXPECT_ERROR(take(three_trees(), {0, 3}), "take: graphs must be from 0 to 2, got 3");
  EXPECT_ERROR(take(three_trees(), {-1}), "take: graphs must be from 0 to 2, got -1");
  GraphSet connected = three_trees();
  connected.offsets = at::tensor({0, 2, 5, 9}, at::kLong);
  EXPECT_ERROR(take(connected, {0}), "take: set.graph must not connect two graphs, got an edge to node 2");
}

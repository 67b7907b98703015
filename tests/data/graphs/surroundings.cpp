#include "data/graphs/surroundings.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

#include "support/compare.h"

namespace topomask {
namespace {

std::vector<int64_t> ball(const Graph& graph, at::IntArrayRef seeds, int64_t hops) {
  at::Tensor reached = at::zeros({graph.num_nodes()}, at::kFloat);
  for (const int64_t node : seeds) reached[node] = 1;
  const at::Tensor adjacency = graph.matrix().dense();
  for (int64_t hop = 0; hop < hops; ++hop) reached = (reached + adjacency.mv(reached)).gt(0).to(at::kFloat);
  const at::Tensor nodes = reached.nonzero().flatten().contiguous();
  return {nodes.const_data_ptr<int64_t>(), nodes.const_data_ptr<int64_t>() + nodes.size(0)};
}

TEST(Surroundings, OfEveryNeighbourAreTheBall) {
  const Graph graph = Graph::grid({7, 9});
  for (const int64_t hops : {1, 2, 5, 20}) {
    EXPECT_EQ(sample_surroundings(graph, {0, 31}, hops, 4, 1, 0), ball(graph, {0, 31}, hops)) << hops;
  }
}

TEST(Surroundings, DrawSoManyNeighboursOfEachNode) {
  const Graph star = Graph::star(100);
  for (uint32_t draw = 0; draw < 20; ++draw) {
    const std::vector<int64_t> nodes = sample_surroundings(star, {0}, 3, 7, 5, draw);
    EXPECT_EQ(nodes.size(), 8U);  // the leaves lead back to the centre only
    EXPECT_EQ(std::set<int64_t>(nodes.begin(), nodes.end()).size(), 8U);
    EXPECT_EQ(sample_surroundings(star, {0}, 3, 7, 5, draw), nodes) << "the same draw again";
    EXPECT_NE(sample_surroundings(star, {0}, 3, 7, 5, draw + 1), nodes);
    EXPECT_NE(sample_surroundings(star, {0}, 3, 7, 6, draw), nodes) << "another seed";
  }
}

TEST(Surroundings, DrawEveryNeighbourAsOften) {
  const Graph star = Graph::star(11);
  std::vector<int64_t> counts(11);
  constexpr int kDraws = 3000;
  for (uint32_t draw = 0; draw < kDraws; ++draw) {
    for (const int64_t node : sample_surroundings(star, {0}, 1, 3, 9, draw)) ++counts[static_cast<size_t>(node)];
  }
  // Each of ten leaves with probability 3/10: standard deviation 25.
  for (size_t leaf = 1; leaf < counts.size(); ++leaf) EXPECT_NEAR(static_cast<double>(counts[leaf]), 900, 125) << leaf;
}

TEST(Surroundings, AreASetOfOneGraph) {
  const at::Tensor parents = at::tensor({-1, 0, 0, 1, 1, 3, 5}, at::kLong);
  const GraphSet set{.name = "tree",
                     .graph = Graph::forest(parents),
                     .offsets = at::tensor({0, 7}, at::kLong),
                     .features = at::arange(14, at::kFloat).reshape({7, 2}),
                     .labels = at::arange(7, at::kLong),
                     .node_labels = true,
                     .parents = parents,
                     .classes = {"a", "b"}};
  const GraphSet part = induced_set(set, {1, 3, 4, 6});
  EXPECT_EQ(part.size(), 1);
  EXPECT_TRUE(part.parents.equal(at::tensor({-1, 0, 0, -1}, at::kLong))) << "node 6 lost its parent 5, node 1 its 0";
  EXPECT_TRUE(part.labels.equal(at::tensor({1, 3, 4, 6}, at::kLong)));
  EXPECT_TRUE(part.features.equal(set.features.index_select(0, part.labels)));
  const at::Tensor dense = set.graph.matrix().dense();
  EXPECT_TRUE(part.graph.matrix().dense().equal(dense.index_select(0, part.labels).index_select(1, part.labels)));
}

}  // namespace
}  // namespace topomask

#include "topomask/forest.h"

#include "masks/forest/trees.h"
#include "support/compare.h"
#include "support/mask_contract.h"

namespace topomask::testing {
namespace {

at::Tensor longs(std::vector<int64_t> values) {
  return at::tensor(values, at::kLong);
}

TEST(Forest, KnowsItsTreesAndDistances) {
  for (const NamedParent& tree : parents()) {
    SCOPED_TRACE(tree.name);
    const at::Tensor weights = real_weights(tree.parent.size(0), 50);
    const Forest forest(tree.parent, weights);
    const AllPairs pairs = all_pairs(tree.parent, weights);
    EXPECT_EQ(forest.num_trees(), (tree.parent < 0).sum().item<int64_t>());
    EXPECT_TRUE(
        close(at::scalar_tensor(forest.diameter(), at::kDouble), (pairs.distance * pairs.same_tree).max(), 1e-12));
    for (int64_t node = 0; node < forest.num_nodes(); node += 5) {
      const at::Tensor distance = forest.distances(node);
      EXPECT_TRUE(distance.isfinite().equal(pairs.same_tree[node] > 0));
      EXPECT_TRUE(
          close(at::where(distance.isfinite(), distance, 0), pairs.distance[node] * pairs.same_tree[node], 1e-12));
    }
  }
}

TEST(Forest, HasUnitLengthsUnlessTold) {
  const Forest forest(longs({-1, 0, 0, 2}));
  EXPECT_EQ(forest.weights().scalar_type(), at::kFloat);
  EXPECT_TRUE(forest.distances(1).equal(at::tensor({1.0, 0.0, 2.0, 3.0}, at::kDouble)));
  EXPECT_EQ(forest.to(at::kDouble).weights().scalar_type(), at::kDouble);
  EXPECT_EQ(forest.with_weights(at::full({4}, 2.0)).diameter(), 6.0);
}

TEST(Forest, KeepsItsOwnLengths) {
  const at::Tensor weights = at::ones({3});
  const Forest forest(path_parent(3), weights);
  weights.fill_(5);
  EXPECT_EQ(forest.diameter(), 2.0);
}

TEST(Forest, RefusesWhatIsNoForest) {
  EXPECT_ERROR(Forest(at::Tensor()), "Forest: parent must be int64 or int32 [N] on cpu, got undefined");
  EXPECT_ERROR(Forest(longs({1, 2, 0, -1})), "Forest: parent must have no cycle, got one through node 0");
  EXPECT_ERROR(Forest(longs({-1, 1, 1})), "Forest: parent must have no cycle, got one through node 1");
  EXPECT_ERROR(Forest(longs({-1, 7})), "Forest: parent");
  EXPECT_ERROR(Forest(longs({-1, 0}), at::ones({3})),
               "Forest: weights must be float32 or float64 [N = 2] on cpu, got Float[3]");
  EXPECT_ERROR(Forest(longs({-1, 0}), longs({1, 1})), "Forest: weights must be float32 or float64 [N = 2]");
  EXPECT_ERROR(Forest(longs({-1, 0}), at::tensor({0.0, INFINITY}, at::kDouble)),
               "Forest: weights must be finite, got inf at node 1");
  const Forest root_may_be_anything(longs({-1, 0}), at::tensor({double(NAN), 1.0}, at::kDouble));
  EXPECT_EQ(root_may_be_anything.diameter(), 1.0);
  EXPECT_ERROR(root_may_be_anything.distances(2), "Forest::distances: node must be in [0, 2), got 2");
  EXPECT_ERROR(root_may_be_anything.to(at::kHalf), "Forest::to: dtype must be Float or Double, got Half");
}

TEST(Forest, ComesFromAGraphWithoutCycles) {
  const at::Tensor parent = shuffled(joined({random_parent(50, 51), path_parent(1), star_parent(9)}), 52);
  const Graph graph = Graph::forest(parent);
  at::Tensor weights = at::rand({graph.num_entries()}, at::kDouble);
  weights = 0.5 * (weights + SparseMatrix{graph.pattern(), weights}.transposed().values);
  const Forest forest = Forest::from_graph(graph.with_weights(weights));
  EXPECT_EQ(forest.num_trees(), 3);
  // Adjacent nodes are one edge apart, with its weight.
  const at::Tensor dense = graph.with_weights(weights).matrix().dense();
  for (int64_t node = 0; node < 60; node += 7) {
    const at::Tensor neighbours = dense[node].nonzero().flatten();
    EXPECT_TRUE(
        close(forest.distances(node).index_select(0, neighbours), dense[node].index_select(0, neighbours), 1e-14));
  }
}

TEST(Forest, RefusesAGraphWithACycle) {
  EXPECT_ERROR(Forest::from_graph(Graph::cycle(5)),
               "Forest::from_graph: graph must have no cycle, got one through the edge 3 - 4");
  const Graph loop = Graph::from_edges(2, longs({1}), longs({1}));
  EXPECT_ERROR(Forest::from_graph(loop), "got one through the edge 1 - 1");
  const Graph directed = Graph::from_edges(2, longs({0}), longs({1}), {}, {.directed = true});
  EXPECT_ERROR(Forest::from_graph(directed), "Forest::from_graph: graph must be undirected, got a directed one");
  EXPECT_ERROR(minimum_spanning_forest(directed), "minimum_spanning_forest: graph must be undirected");
}

TEST(MinimumSpanningForest, IsTheLightestOfASmallGraph) {
  //     0 -1- 1
  //     |4   |2      3 -9- 5
  //     2 -3- 4
  const Graph graph = Graph::from_edges(6, longs({0, 1, 2, 0, 3}), longs({1, 4, 4, 2, 5}),
                                        at::tensor({1.0, 2.0, 3.0, 4.0, 9.0}, at::kDouble));
  const Forest forest = minimum_spanning_forest(graph);
  EXPECT_EQ(forest.num_trees(), 2);
  EXPECT_EQ(forest.weights().sum().item<double>(), 15.0);
  EXPECT_EQ(forest.distances(0)[2].item<double>(), 6.0);
  EXPECT_EQ(forest.distances(5)[3].item<double>(), 9.0);
}

/// Cycle property: no edge outside the forest is lighter than any edge on the path it would close.
TEST(MinimumSpanningForest, HasTheCycleProperty) {
  const Graph plain = Graph::erdos_renyi(40, 0.15, 3);
  at::Tensor weights = normal({plain.num_entries()}, 53);
  weights = weights + SparseMatrix{plain.pattern(), weights}.transposed().values;
  const Graph graph = plain.with_weights(weights);
  const Forest forest = minimum_spanning_forest(graph);
  EXPECT_EQ(forest.num_trees(), connected_components(graph).count);
  const int32_t* parent = forest.parent().const_data_ptr<int32_t>();
  const auto heaviest_to_root = [&](int64_t v) {  // per ancestor
    std::map<int64_t, double> heaviest{{v, -INFINITY}};
    for (double most = -INFINITY; parent[v] >= 0; v = parent[v]) {
      most = std::max(most, forest.weights()[v].item<double>());
      heaviest[parent[v]] = most;
    }
    return heaviest;
  };
  const at::Tensor dense = graph.matrix().dense();
  for (const auto& edge : dense.nonzero().unbind(0)) {
    const int64_t u = edge[0].item<int64_t>(), v = edge[1].item<int64_t>();
    if (u == v) continue;
    double on_path = INFINITY;  // at the lowest common ancestor it is least
    const auto other = heaviest_to_root(v);
    for (const auto& [node, most] : heaviest_to_root(u)) {
      if (other.contains(node)) on_path = std::min(on_path, std::max(most, other.at(node)));
    }
    EXPECT_LE(on_path, dense[u][v].item<double>());
  }
}

TEST(MinimumSpanningForest, PassesGradientsToTheGraph) {
  const Graph grid = Graph::grid({4, 5});
  const at::Tensor edge = at::rand({31}, at::kDouble).requires_grad_();  // one per undirected edge
  at::Tensor which = at::zeros({grid.num_entries()}, at::kLong);
  std::map<std::pair<int64_t, int64_t>, int64_t> number;
  const int64_t* offset = grid.offsets().const_data_ptr<int64_t>();
  const int32_t* column = grid.columns().const_data_ptr<int32_t>();
  for (int64_t u = 0; u < 20; ++u) {
    for (int64_t e = offset[u]; e < offset[u + 1]; ++e) {
      const std::pair<int64_t, int64_t> key = std::minmax({u, int64_t{column[e]}});
      which[e] = number.emplace(key, static_cast<int64_t>(number.size())).first->second;
    }
  }
  const at::Tensor a = at::scalar_tensor(-0.5, at::kDouble);
  const MaskPtr mask = tree_mask(minimum_spanning_forest(grid.with_weights(edge.index_select(0, which))),
                                 DistanceFunction::exponential(a));
  const at::Tensor y = mask->matmul(at::ones({20, 1}, at::kDouble)).sum();
  const at::Tensor gradient = gradients(y, at::ones({}, at::kDouble), {edge})[0];
  EXPECT_EQ((gradient < 0).sum().item<int64_t>(), 19);  // longer edges mean less mass; edges off the tree have none
  EXPECT_EQ((gradient == 0).sum().item<int64_t>(), 12);
}

TEST(MinimumSpanningForest, TakesEmptyAndEdgelessGraphs) {
  EXPECT_EQ(minimum_spanning_forest(Graph::path(0)).num_nodes(), 0);
  EXPECT_EQ(minimum_spanning_forest(Graph::path(1)).num_trees(), 1);
  EXPECT_EQ(minimum_spanning_forest(Graph::erdos_renyi(5, 0.0)).num_trees(), 5);
}

}  // namespace
}  // namespace topomask::testing

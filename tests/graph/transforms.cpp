#include <ATen/Parallel.h>

#include "graph_testing.h"

namespace topomask {
namespace {

using namespace topomask::testing;

/// A graph with loops, isolated nodes and weights that tell its edges apart.
Graph motley(int64_t nodes, bool directed, int64_t edges) {
  const at::Tensor source = at::randint(std::max<int64_t>(nodes, 1), {nodes == 0 ? 0 : edges}, at::kLong);
  const at::Tensor target = at::randint(std::max<int64_t>(nodes, 1), {nodes == 0 ? 0 : edges}, at::kLong);
  return Graph::from_edges(nodes, source, target, at::rand(source.sizes(), at::kDouble) + 1, {.directed = directed});
}

at::Tensor identity(int64_t n) {
  return at::eye(n, at::kDouble);
}

TEST(CartesianProduct, IsTheKroneckerSum) {
  at::manual_seed(9);
  for (bool directed : {false, true}) {
    for (int64_t n : {0, 1, 2, 5}) {
      for (int64_t m : {0, 1, 3, 7}) {
        const Graph a = motley(n, directed, 9);
        const Graph b = motley(m, directed, 11);
        const at::Tensor expected =
            n * m == 0 ? at::zeros({0, 0}, at::kDouble)
                       : at::kron(dense_adjacency(a), identity(m)) + at::kron(identity(n), dense_adjacency(b));
        const Graph product = cartesian_product(a, b);
        EXPECT_TRUE(at::allclose(dense_adjacency(product), expected, 1e-14));
        EXPECT_EQ(product.num_entries(), expected.count_nonzero().item<int64_t>());
        EXPECT_EQ(product.directed(), directed);
      }
    }
  }
}

TEST(CartesianProduct, OfPathsIsTheGrid) {
  expect_same_graph(cartesian_product(Graph::path(3), Graph::grid({4, 5})), Graph::grid({3, 4, 5}));
  expect_same_graph(cartesian_product(Graph::cycle(5), Graph::cycle(7)), Graph::grid({5, 7}, true));
}

TEST(CartesianProduct, CarriesGradientsToBothFactors) {
  const at::Tensor w = at::ones({3}, at::kDouble).requires_grad_();
  const Graph loops = Graph::from_edges(2, ids({0, 0}), ids({0, 1})).with_weights(w);
  cartesian_product(loops, loops).weights().sum().backward();
  EXPECT_TRUE(at::equal(w.grad(), at::full({3}, 4., at::kDouble)));  // each entry stands in 2 rows of either factor
}

TEST(CartesianProduct, ChecksItsArguments) {
  const Graph directed = Graph::knn(at::rand({5, 2}), {.k = 1, .directed = true});
  EXPECT_MESSAGE(cartesian_product(directed, Graph::path(2)),
                 "cartesian_product: a and b must both be directed or both not, got directed and undirected");
  EXPECT_MESSAGE(cartesian_product(Graph::path(2), Graph::path(2).to(at::kDouble)),
                 "cartesian_product: a and b must have one weight dtype, got Float and Double");
  EXPECT_MESSAGE(cartesian_product(Graph::path(100000), Graph::path(100000)),
                 "cartesian_product: the product must have at most 2^31-1 nodes, got 100000 times 100000");
  EXPECT_MESSAGE(cartesian_product(Graph::complete(3000), Graph::path(1000)),
                 "cartesian_product: the graph must have at most 2^33 = 8589934592 entries, got 9002994000");
}

TEST(InducedSubgraph, SelectsRowsAndColumnsInTheOrderGiven) {
  at::manual_seed(10);
  for (bool directed : {false, true}) {
    const Graph graph = motley(13, directed, 60);
    for (const at::Tensor& nodes : {ids({}), ids({4}), ids({7, 2, 12, 0, 5}), at::randperm(13)}) {
      const at::Tensor expected = dense_adjacency(graph).index_select(0, nodes).index_select(1, nodes);
      const Graph part = induced_subgraph(graph, nodes);
      EXPECT_TRUE(at::equal(dense_adjacency(part), expected));
      EXPECT_EQ(part.num_entries(), expected.count_nonzero().item<int64_t>());
      EXPECT_EQ(part.directed(), directed);
    }
  }
}

TEST(InducedSubgraph, ChecksItsNodes) {
  const Graph graph = Graph::path(5);
  EXPECT_MESSAGE(induced_subgraph(graph, ids({1, 5})), "induced_subgraph: nodes[1] must be a node in [0, 5), got 5");
  EXPECT_MESSAGE(induced_subgraph(graph, ids({3, 1, 3})),
                 "induced_subgraph: nodes must be distinct, got node 3 at positions 0 and 2");
  EXPECT_MESSAGE(induced_subgraph(graph, at::rand({2})),
                 "induced_subgraph: nodes must be int64 or int32 of one dimension on cpu, got Float[2] on cpu");
}

TEST(Permuted, RowIOfTheResultIsRowOrderI) {
  at::manual_seed(11);
  const Graph graph = motley(17, true, 80);
  const at::Tensor order = at::randperm(17);
  const at::Tensor expected = dense_adjacency(graph).index_select(0, order).index_select(1, order);
  EXPECT_TRUE(at::equal(dense_adjacency(permuted(graph, order)), expected));
}

TEST(Permuted, TheInverseOrderBringsTheGraphBack) {
  at::manual_seed(12);
  for (int64_t n : {0, 1, 2, 63, 1009}) {
    const Graph graph = motley(n, false, 3 * n);
    const at::Tensor order = at::randperm(n, at::kInt);
    expect_same_graph(permuted(permuted(graph, order), order.argsort()), graph);
  }
}

TEST(Permuted, ChecksItsOrder) {
  const Graph graph = Graph::path(3);
  EXPECT_MESSAGE(permuted(graph, ids({0, 1})), "permuted: order must have one position per node, 3, got 2");
  EXPECT_MESSAGE(permuted(graph, ids({0, 1, 1})), "permuted: order must be distinct, got node 1 at positions 1 and 2");
  EXPECT_MESSAGE(permuted(graph, ids({0, 1, 3})), "permuted: order[2] must be a node in [0, 3), got 3");
}

TEST(ConnectedComponents, AreNumberedByTheirLowestNode) {
  const Components found = connected_components(Graph::from_edges(7, ids({5, 1, 6}), ids({0, 4, 4})));
  EXPECT_EQ(found.count, 4);
  EXPECT_TRUE(at::equal(found.labels, ids({0, 1, 2, 3, 1, 0, 1})));
  EXPECT_EQ(connected_components(Graph::path(0)).count, 0);
  EXPECT_EQ(connected_components(Graph::path(1)).count, 1);
}

TEST(ConnectedComponents, OfDirectedGraphsAreWeak) {
  const at::Tensor source = ids({0, 2, 3});
  const at::Tensor target = ids({1, 1, 3});
  const Components found = connected_components(Graph::from_edges(5, source, target, {}, {.directed = true}));
  EXPECT_TRUE(at::equal(found.labels, ids({0, 0, 0, 1, 2})));
}

TEST(ConnectedComponents, MatchReachabilityOnRandomGraphs) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Graph graph = Graph::erdos_renyi(31, .05, seed);
    at::Tensor reach = dense_adjacency(graph) + identity(31);
    for (int s = 0; s < 5; ++s) reach = at::matmul(reach, reach).clamp_max(1);
    const Components found = connected_components(graph);
    EXPECT_TRUE(at::equal(found.labels.unsqueeze(0) == found.labels.unsqueeze(1), reach > 0));
    EXPECT_EQ(found.labels.max().item<int64_t>() + 1, found.count);
  }
}

TEST(ConnectedComponents, TakeALongShuffledPath) {
  at::manual_seed(13);
  EXPECT_EQ(connected_components(permuted(Graph::path(1000003), at::randperm(1000003))).count, 1);
}

int64_t bandwidth(const Graph& graph) {
  const at::Tensor rows = at::arange(graph.num_nodes()).repeat_interleave(graph.degrees());
  return graph.num_entries() == 0 ? 0 : (rows - graph.columns()).abs().max().item<int64_t>();
}

TEST(ReverseCuthillMckee, BringsAShuffledGridBackToItsWidth) {
  at::manual_seed(14);
  const Graph shuffled = permuted(Graph::grid({60, 20}), at::randperm(1200));
  EXPECT_GT(bandwidth(shuffled), 1000);
  EXPECT_LE(bandwidth(permuted(shuffled, reverse_cuthill_mckee(shuffled))), 24);
}

TEST(ReverseCuthillMckee, UnrollsAPathAndAForestOfPaths) {
  at::manual_seed(15);
  const Graph path = permuted(Graph::path(997), at::randperm(997));
  EXPECT_EQ(bandwidth(permuted(path, reverse_cuthill_mckee(path))), 1);
  const Graph paths = permuted(Graph::forest(ids({-1, 0, 1, -1, -1, 4, 5, 6, -1, 8})), at::randperm(10));
  EXPECT_EQ(bandwidth(permuted(paths, reverse_cuthill_mckee(paths))), 1);
}

TEST(ReverseCuthillMckee, IsAPermutationAlways) {
  at::manual_seed(16);
  for (bool directed : {false, true}) {
    for (int64_t n : {0, 1, 2, 13, 63}) {
      const Graph graph = motley(n, directed, n);
      const at::Tensor order = reverse_cuthill_mckee(graph);
      EXPECT_EQ(order.scalar_type(), at::kLong);
      EXPECT_TRUE(at::equal(std::get<0>(order.sort()), at::arange(n)));
      EXPECT_TRUE(at::equal(order, reverse_cuthill_mckee(graph)));
    }
  }
}

}  // namespace
}  // namespace topomask

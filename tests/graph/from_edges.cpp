#include <ATen/Parallel.h>

#include "graph_testing.h"

namespace topomask {
namespace {

using namespace topomask::testing;

TEST(FromEdges, StoresBothDirectionsOfAnUndirectedEdge) {
  const Graph graph = Graph::from_edges(3, ids({2, 0}), ids({0, 1}), at::tensor({5., 7.}));
  EXPECT_TRUE(at::equal(graph.offsets(), ids({0, 2, 3, 4})));
  EXPECT_TRUE(at::equal(graph.columns(), at::tensor({1, 2, 0, 0})));
  EXPECT_TRUE(at::equal(graph.weights(), at::tensor({7., 5., 7., 5.})));
}

TEST(FromEdges, WithoutWeightsEveryEdgeWeighsOne) {
  const Graph graph = Graph::from_edges(3, at::tensor({0, 1}), ids({1, 2}));
  expect_same_graph(graph, Graph::path(3));
  EXPECT_EQ(graph.weights().scalar_type(), at::kFloat);
}

TEST(FromEdges, TakesNoNodesNoEdgesAndIsolatedNodes) {
  const at::Tensor none = at::empty({0}, at::kInt);
  EXPECT_EQ(Graph::from_edges(0, none, none).num_nodes(), 0);
  EXPECT_EQ(Graph::from_edges(1, none, none, at::empty({0}, at::kDouble)).weights().scalar_type(), at::kDouble);
  EXPECT_TRUE(at::equal(Graph::from_edges(5, ids({3}), ids({1})).degrees(), ids({0, 1, 0, 1, 0})));
}

TEST(FromEdges, TakesStridedInput) {
  const at::Tensor pairs = ids({0, 1, 1, 2, 2, 3}).view({3, 2});
  const at::Tensor weights = at::tensor({1.f, 9.f, 1.f, 9.f, 1.f, 9.f}).slice(0, 0, 6, 2);
  expect_same_graph(Graph::from_edges(4, pairs.select(1, 0), pairs.select(1, 1), weights), Graph::path(4));
}

TEST(FromEdges, FirstKeepsTheWeightGivenFirstOnBothSides) {
  // (1, 0) is spelled before (0, 1): its weight wins in row 0 and in row 1.
  const Graph graph = Graph::from_edges(2, ids({1, 0, 1}), ids({0, 1, 0}), at::tensor({5.f, 6.f, 7.f}));
  EXPECT_TRUE(at::equal(graph.weights(), at::tensor({5.f, 5.f})));
  const Graph directed =
      Graph::from_edges(2, ids({1, 0, 1}), ids({0, 1, 0}), at::tensor({5.f, 6.f, 7.f}), {.directed = true});
  EXPECT_TRUE(at::equal(directed.weights(), at::tensor({6.f, 5.f})));
}

TEST(FromEdges, SumCountsEverySpellingOnce) {
  const EdgeListOptions sum{.duplicates = Duplicates::sum};
  const Graph graph = Graph::from_edges(2, ids({1, 0, 1, 1}), ids({0, 1, 0, 1}), at::tensor({5.f, 6.f, 7.f, 2.f}), sum);
  EXPECT_TRUE(at::equal(dense_adjacency(graph), at::tensor({0., 18., 18., 2.}).view({2, 2})));
  const Graph counted = Graph::from_edges(2, ids({1, 0, 1}), ids({0, 1, 1}), {}, sum);
  EXPECT_TRUE(at::equal(dense_adjacency(counted), at::tensor({0., 2., 2., 1.}).view({2, 2})));
  EXPECT_MESSAGE(Graph::from_edges(2, ids({0, 1}), ids({1, 0}), at::tensor({3e38f, 3e38f}), sum),
                 "from_edges: weights must have a finite sum, got inf for (0, 1)");
}

TEST(FromEdges, RefuseNamesTheDuplicateEdge) {
  const EdgeListOptions refuse{.duplicates = Duplicates::refuse};
  EXPECT_MESSAGE(Graph::from_edges(4, ids({0, 2, 3}), ids({1, 3, 2}), {}, refuse),
                 "from_edges: duplicate edges are refused, got (2, 3) at positions 1 and 2");
  EXPECT_EQ(Graph::from_edges(4, ids({2, 3}), ids({3, 2}), {}, {.directed = true, .duplicates = Duplicates::refuse})
                .num_edges(),
            2);
}

TEST(FromEdges, SelfLoopsAreKeptOnceDroppedOrRefused) {
  const at::Tensor source = ids({0, 1});
  const at::Tensor target = ids({1, 1});
  EXPECT_EQ(Graph::from_edges(2, source, target).num_entries(), 3);
  EXPECT_EQ(Graph::from_edges(2, source, target).num_edges(), 2);
  expect_same_graph(Graph::from_edges(2, source, target, {}, {.self_loops = SelfLoops::drop}), Graph::path(2));
  EXPECT_MESSAGE(Graph::from_edges(2, source, target, {}, {.self_loops = SelfLoops::refuse}),
                 "from_edges: self-loops are refused, got (1, 1) at position 1");
}

TEST(FromEdges, ChecksEveryArgument) {
  const at::Tensor one = ids({0});
  EXPECT_MESSAGE(Graph::from_edges(-1, one, one), "from_edges: nodes must be in [0, 2^31-1], got -1");
  EXPECT_MESSAGE(Graph::from_edges(int64_t{1} << 31, one, one),
                 "from_edges: nodes must be in [0, 2^31-1], got 2147483648");
  EXPECT_MESSAGE(Graph::from_edges(3, ids({0, 3}), ids({1, 1})),
                 "from_edges: source[1] must be a node in [0, 3), got 3");
  EXPECT_MESSAGE(Graph::from_edges(3, one, at::tensor({-1})), "from_edges: target[0] must be a node in [0, 3), got -1");
  EXPECT_MESSAGE(Graph::from_edges(3, one, ids({(int64_t{1} << 32) + 1})),
                 "from_edges: target[0] must be a node in [0, 3), got 4294967297");
  EXPECT_MESSAGE(Graph::from_edges(3, one, ids({1, 2})),
                 "from_edges: source and target must have one length, got 1 and 2");
  EXPECT_MESSAGE(Graph::from_edges(3, {}, one),
                 "from_edges: source must be int64 or int32 of one dimension on cpu, got undefined");
  EXPECT_MESSAGE(Graph::from_edges(3, at::tensor({0.f}), one),
                 "from_edges: source must be int64 or int32 of one dimension on cpu, got Float[1] on cpu");
  EXPECT_MESSAGE(Graph::from_edges(3, one, ids({1}), at::tensor({1.f, 2.f})),
                 "from_edges: weights must be float32 or float64 [1] on cpu, got Float[2] on cpu");
  EXPECT_MESSAGE(Graph::from_edges(3, one, ids({1}), at::tensor({NAN})),
                 "from_edges: weights must be finite, got nan at position 0");
  EXPECT_MESSAGE(
      Graph::from_edges(3, one, ids({1}), at::tensor({1.f}).requires_grad_()),
      "from_edges: weights must not require grad, as gradients stop here (use with_weights), got weights that do");
}

/// What from_edges promises, written with a dense matrix and no cleverness.
at::Tensor brute_force(int64_t nodes, const at::Tensor& source, const at::Tensor& target, const at::Tensor& weights,
                       const EdgeListOptions& options) {
  std::vector<std::vector<double>> dense(nodes, std::vector<double>(nodes, 0));
  std::vector<std::vector<bool>> set(nodes, std::vector<bool>(nodes, false));
  const auto give = [&](int64_t u, int64_t v, double w) {
    if (!set[u][v] || options.duplicates == Duplicates::sum) dense[u][v] += w;
    set[u][v] = true;
  };
  for (int64_t e = 0; e < source.size(0); ++e) {
    const int64_t u = source[e].item<int64_t>();
    const int64_t v = target[e].item<int64_t>();
    if (u == v && options.self_loops == SelfLoops::drop) continue;
    give(u, v, weights[e].item<double>());
    if (!options.directed && u != v) give(v, u, weights[e].item<double>());
  }
  at::Tensor result = at::empty({nodes, nodes}, at::kDouble);
  for (int64_t i = 0; i < nodes; ++i) result[i].copy_(at::tensor(dense[i]));
  return result;
}

TEST(FromEdges, MatchesBruteForceOnRandomMultigraphs) {
  at::manual_seed(3);
  for (int64_t nodes : {1, 2, 7, 23}) {
    const at::Tensor source = at::randint(nodes, {63}, at::kLong);
    const at::Tensor target = at::randint(nodes, {63}, at::kInt);
    const at::Tensor weights = at::rand({63}, at::kDouble);
    for (bool directed : {false, true}) {
      for (Duplicates duplicates : {Duplicates::first, Duplicates::sum}) {
        for (SelfLoops loops : {SelfLoops::keep, SelfLoops::drop}) {
          const EdgeListOptions options{directed, duplicates, loops};
          const Graph graph = Graph::from_edges(nodes, source, target, weights, options);
          const at::Tensor dense = dense_adjacency(graph);
          EXPECT_TRUE(at::allclose(dense, brute_force(nodes, source, target, weights, options), 1e-14));
          EXPECT_TRUE(directed || at::equal(dense, dense.t()));
          EXPECT_EQ(dense.count_nonzero().item<int64_t>(), graph.num_entries());
        }
      }
    }
  }
}

TEST(FromEdges, IsTheSameForAnyNumberOfThreads) {
  at::manual_seed(4);
  const int threads = at::get_num_threads();
  const int64_t nodes = 100003;
  const at::Tensor source = at::randint(nodes, {300007}, at::kLong);
  const at::Tensor target = (source + at::randint(1, 50, {300007}, at::kLong)).remainder(nodes);
  const at::Tensor weights = at::rand({300007});
  const EdgeListOptions options{.duplicates = Duplicates::sum};
  at::set_num_threads(1);
  const Graph serial = Graph::from_edges(nodes, source, target, weights, options);
  at::set_num_threads(4);
  const Graph parallel = Graph::from_edges(nodes, source, target, weights, options);
  const std::string error = error_of([&] { Graph::from_edges(nodes / 2, source, target); });
  at::set_num_threads(1);
  EXPECT_EQ(error, error_of([&] { Graph::from_edges(nodes / 2, source, target); }));
  at::set_num_threads(threads);
  expect_same_graph(serial, parallel);
}

}  // namespace
}  // namespace topomask

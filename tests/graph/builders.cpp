#include "graph_testing.h"

namespace topomask {
namespace {

using namespace topomask::testing;

void expect_adjacency(const Graph& graph, const at::Tensor& expected) {
  EXPECT_TRUE(at::equal(dense_adjacency(graph), expected)) << dense_adjacency(graph) << expected;
  EXPECT_EQ(graph.num_entries(), expected.count_nonzero().item<int64_t>());
  EXPECT_EQ(graph.weights().scalar_type(), at::kFloat);
  EXPECT_FALSE(graph.directed());
}

TEST(Builders, PathJoinsConsecutiveNodes) {
  for (int64_t n : {0, 1, 2, 3, 7, 63}) {
    expect_adjacency(Graph::path(n), dense_relation(n, [](int64_t i, int64_t j) { return std::abs(i - j) == 1; }));
    EXPECT_EQ(Graph::path(n).num_edges(), std::max<int64_t>(n - 1, 0));
  }
}

TEST(Builders, CycleClosesThePath) {
  for (int64_t n : {0, 1, 2, 3, 7, 63}) {
    expect_adjacency(Graph::cycle(n), dense_relation(n, [n](int64_t i, int64_t j) {
                       return i != j && ((i + 1) % n == j || (j + 1) % n == i);
                     }));
  }
  EXPECT_EQ(Graph::cycle(2).num_edges(), 1);
}

TEST(Builders, GridJoinsNodesOneStepApartAlongOneAxis) {
  const std::vector<std::vector<int64_t>> shapes = {{0}, {1},    {5},       {2, 3},    {3, 2},       {1, 1}, {1, 5, 1},
                                                    {7}, {4, 0}, {3, 4, 5}, {2, 2, 2}, {2, 3, 2, 3}, {5, 7}};
  for (const auto& dims : shapes) {
    int64_t nodes = 1;
    for (int64_t size : dims) nodes *= size;
    for (bool wrap : {false, true}) {
      const auto one_step = [&](int64_t i, int64_t j) {
        int64_t steps = 0;
        for (auto size = dims.rbegin(); size != dims.rend(); ++size) {
          int64_t apart = std::abs(i % *size - j % *size);
          if (wrap) apart = std::min(apart, *size - apart);
          steps += apart;
          i /= *size;
          j /= *size;
        }
        return steps == 1;
      };
      expect_adjacency(Graph::grid(dims, wrap), dense_relation(nodes, one_step));
    }
  }
}

TEST(Builders, GridHasTwoNeighboursPerAxisInside) {
  const Graph graph = Graph::grid({5, 7, 3});
  EXPECT_EQ(graph.max_degree(), 6);
  EXPECT_EQ(graph.degrees()[0].item<int64_t>(), 3);
  EXPECT_TRUE((Graph::grid({5, 7, 3}, true).degrees() == 6).all().item<bool>());
}

TEST(Builders, CompleteJoinsEveryPair) {
  for (int64_t n : {0, 1, 2, 3, 13}) {
    expect_adjacency(Graph::complete(n), dense_relation(n, [](int64_t i, int64_t j) { return i != j; }));
  }
}

TEST(Builders, StarJoinsNodeZeroToAllOthers) {
  for (int64_t n : {0, 1, 2, 3, 13}) {
    expect_adjacency(Graph::star(n), dense_relation(n, [](int64_t i, int64_t j) { return i != j && i * j == 0; }));
  }
}

TEST(Builders, HypercubeNeighboursDifferInOneBit) {
  for (int64_t d : {0, 1, 2, 3, 6}) {
    expect_adjacency(Graph::hypercube(d), dense_relation(int64_t{1} << d, [](int64_t i, int64_t j) {
                       return __builtin_popcountll(i ^ j) == 1;
                     }));
  }
}

TEST(Builders, SizesAreBoundedBeforeAnythingIsAllocated) {
  EXPECT_MESSAGE(Graph::path(-1), "path: nodes must be in [0, 2^31-1], got -1");
  EXPECT_MESSAGE(Graph::cycle(int64_t{1} << 40), "cycle: nodes must be in [0, 2^31-1], got 1099511627776");
  EXPECT_MESSAGE(Graph::star(-7), "star: nodes must be in [0, 2^31-1], got -7");
  EXPECT_MESSAGE(Graph::complete(-2), "complete: nodes must be in [0, 2^31-1], got -2");
  EXPECT_MESSAGE(Graph::complete(100000),
                 "complete: the graph must have at most 2^33 = 8589934592 entries, got 9999900000");
  EXPECT_MESSAGE(Graph::grid({}), "grid: dims must have at least one axis, got none");
  EXPECT_MESSAGE(Graph::grid({3, -1}), "grid: dims must not be negative, got -1");
  EXPECT_MESSAGE(Graph::grid({int64_t{1} << 40, int64_t{1} << 40}),
                 "grid: the product of dims must be at most 2^31-1, got [1099511627776, 1099511627776]");
  EXPECT_MESSAGE(Graph::grid(std::vector<int64_t>(19, 3), true),
                 "grid: the graph must have at most 2^33 = 8589934592 entries, got 44165935746");
  EXPECT_EQ(Graph::grid({int64_t{1} << 40, int64_t{1} << 40, 0}).num_nodes(), 0);
  EXPECT_MESSAGE(Graph::hypercube(-1), "hypercube: dimensions must be in [0, 30], got -1");
  EXPECT_MESSAGE(Graph::hypercube(31), "hypercube: dimensions must be in [0, 30], got 31");
  EXPECT_MESSAGE(Graph::hypercube(30),
                 "hypercube: the graph must have at most 2^33 = 8589934592 entries, got 32212254720");
}

TEST(Builders, ForestJoinsEveryNodeToItsParent) {
  const std::vector<int64_t> parent = {3, 0, -1, 2, 0, -1, 5, -1};
  const at::Tensor expected = dense_relation(8, [&](int64_t i, int64_t j) { return parent[i] == j || parent[j] == i; });
  expect_adjacency(Graph::forest(ids(parent)), expected);
  expect_adjacency(Graph::forest(ids(parent).to(at::kInt)), expected);
  EXPECT_EQ(Graph::forest(ids({})).num_nodes(), 0);
  EXPECT_EQ(Graph::forest(ids({-1})).num_edges(), 0);
}

TEST(Builders, ForestTakesAPathOfAMillionNodes) {
  const int64_t n = 1000000;
  expect_same_graph(Graph::forest(at::arange(n) - 1), Graph::path(n));
  const at::Tensor upwards = at::where(at::arange(n) == n - 1, -1, at::arange(n) + 1);
  expect_same_graph(Graph::forest(upwards), Graph::path(n));
}

TEST(Builders, ForestRefusesWhatIsNoForest) {
  EXPECT_MESSAGE(Graph::forest({}), "forest: parent must be int64 or int32 [N] on cpu, got undefined");
  EXPECT_MESSAGE(Graph::forest(at::tensor({1.f})),
                 "forest: parent must be int64 or int32 of one dimension on cpu, got Float[1] on cpu");
  EXPECT_MESSAGE(Graph::forest(ids({-1, 2})), "forest: parent[1] must be a node in [-1, 2), got 2");
  EXPECT_MESSAGE(Graph::forest(ids({-2})), "forest: parent[0] must be a node in [-1, 1), got -2");
  EXPECT_MESSAGE(Graph::forest(ids({-1, 1})), "forest: parent[1] must be another node or -1, got 1 itself");
  EXPECT_MESSAGE(Graph::forest(ids({1, 2, 3, 1, -1})), "forest: parent must have no cycle, got one through node 1");
}

TEST(Builders, ErdosRenyiHasEdgesAtTheGivenRate) {
  for (double p : {.001, .02, .3, .9}) {
    const int64_t n = 1009;
    const Graph graph = Graph::erdos_renyi(n, p, 17);
    const double pairs = n * (n - 1) / 2.;
    EXPECT_NEAR(graph.num_edges(), p * pairs, 5 * std::sqrt(pairs * p * (1 - p)));
    // Rows far apart in the order of drawing have their share too: mean degree in the first and last third.
    const at::Tensor degree = graph.degrees().to(at::kDouble);
    const double sigma = std::sqrt(p * (1 - p) * n / (n / 3.)) * std::sqrt(2.);
    EXPECT_NEAR(degree.narrow(0, 0, n / 3).mean().item<double>(), p * (n - 1), 5 * sigma);
    EXPECT_NEAR(degree.narrow(0, n - n / 3, n / 3).mean().item<double>(), p * (n - 1), 5 * sigma);
    EXPECT_TRUE((dense_adjacency(graph).diagonal() == 0).all().item<bool>());
  }
}

TEST(Builders, ErdosRenyiIsFixedByItsSeed) {
  expect_same_graph(Graph::erdos_renyi(200, .05, 1), Graph::erdos_renyi(200, .05, 1));
  EXPECT_FALSE(
      at::equal(dense_adjacency(Graph::erdos_renyi(200, .05, 1)), dense_adjacency(Graph::erdos_renyi(200, .05, 2))));
}

TEST(Builders, ErdosRenyiTakesTheExtremes) {
  expect_same_graph(Graph::erdos_renyi(11, 1), Graph::complete(11));
  EXPECT_EQ(Graph::erdos_renyi(11, 0).num_edges(), 0);
  EXPECT_EQ(Graph::erdos_renyi(0, .5).num_nodes(), 0);
  EXPECT_EQ(Graph::erdos_renyi(1, .5).num_edges(), 0);
  EXPECT_EQ(Graph::erdos_renyi(100000, 1e-300).num_edges(), 0);
  EXPECT_MESSAGE(Graph::erdos_renyi(-1, .5), "erdos_renyi: nodes must be in [0, 2^31-1], got -1");
  EXPECT_MESSAGE(Graph::erdos_renyi(5, 1.5), "erdos_renyi: probability must be in [0, 1], got 1.5");
  EXPECT_MESSAGE(Graph::erdos_renyi(5, NAN), "erdos_renyi: probability must be in [0, 1], got nan");
  EXPECT_MESSAGE(Graph::erdos_renyi(1000000, .5),
                 "erdos_renyi: probability must give fewer than 2^33 = 8589934592 expected entries, got 5e+11");
}

}  // namespace
}  // namespace topomask

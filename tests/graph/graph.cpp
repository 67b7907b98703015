#include "topomask/graph.h"

#include <ATen/core/grad_mode.h>

#include "graph_testing.h"

namespace topomask {
namespace {

using namespace topomask::testing;

Graph directed_triangle() {
  return Graph::from_edges(4, ids({0, 1, 2, 0}), ids({1, 2, 0, 2}), at::tensor({1.f, 2.f, 3.f, 4.f}),
                           {.directed = true});
}

TEST(Graph, FromCsrKeepsTheRowsGiven) {
  const Graph graph = Graph::from_csr(ids({0, 2, 3, 4}), at::tensor({1, 2, 0, 0}), at::tensor({.5, .25, .5, .25}));
  EXPECT_EQ(graph.num_nodes(), 3);
  EXPECT_EQ(graph.num_entries(), 4);
  EXPECT_EQ(graph.num_edges(), 2);
  EXPECT_FALSE(graph.directed());
  EXPECT_EQ(graph.weights().scalar_type(), at::kDouble);
  EXPECT_EQ(dense_adjacency(graph)[0][2].item<double>(), .25);
}

TEST(Graph, FromCsrTakesStridedTensorsAndNoWeights) {
  const at::Tensor offsets = at::stack({ids({0, 1, 2}), ids({9, 9, 9})}, 1).select(1, 0);
  const at::Tensor columns = at::tensor({1, 9, 0, 9}, at::kInt).slice(0, 0, 4, 2);
  expect_same_graph(Graph::from_csr(offsets, columns, {}), Graph::path(2));
}

TEST(Graph, FromCsrOfNothingIsTheEmptyGraph) {
  const Graph graph = Graph::from_csr(ids({0}), at::empty({0}, at::kInt), {});
  EXPECT_EQ(graph.num_nodes(), 0);
  EXPECT_EQ(graph.num_edges(), 0);
  EXPECT_EQ(graph.max_degree(), 0);
  EXPECT_EQ(graph.degrees().sizes(), at::IntArrayRef({0}));
  EXPECT_EQ(graph.normalised().num_entries(), 0);
}

TEST(Graph, FromCsrRefusesAnAsymmetricPatternNamingTheEdge) {
  // Row 0 asks for a mirror that row 1 lacks, at its end and before a higher column.
  EXPECT_MESSAGE(Graph::from_csr(ids({0, 1, 1}), at::tensor({1}), {}),
                 "from_csr: an undirected graph must be symmetric, got (0, 1) without (1, 0)");
  EXPECT_MESSAGE(Graph::from_csr(ids({0, 1, 2, 3}), at::tensor({1, 2, 1}), {}),
                 "from_csr: an undirected graph must be symmetric, got (0, 1) without (1, 0)");
  // Row 2 holds (2, 0), which row 0 never asked for; it comes to light when row 1 asks for (2, 1).
  EXPECT_MESSAGE(Graph::from_csr(ids({0, 0, 1, 3}), at::tensor({2, 0, 1}), {}),
                 "from_csr: an undirected graph must be symmetric, got (2, 0) without (0, 2)");
  EXPECT_EQ(Graph::from_csr(ids({0, 1, 1}), at::tensor({1}), {}, true).num_edges(), 1);
}

TEST(Graph, FromCsrRefusesAsymmetricWeights) {
  EXPECT_MESSAGE(Graph::from_csr(ids({0, 1, 2}), at::tensor({1, 0}), at::tensor({1.5f, 2.5f})),
                 "from_csr: weights of an undirected graph must be symmetric, got 1.5 at (0, 1) and 2.5 at (1, 0)");
}

TEST(Graph, FromCsrChecksItsTensors) {
  EXPECT_MESSAGE(Graph::from_csr({}, at::tensor({1}), {}),
                 "from_csr: offsets must be int64 [N + 1] on cpu or cuda, got undefined");
  EXPECT_MESSAGE(Graph::from_csr(at::empty({0}, at::kLong), at::tensor({1}), {}),
                 "from_csr: offsets must be int64 [N + 1] on cpu or cuda, got Long[0] on cpu");
  EXPECT_MESSAGE(Graph::from_csr(ids({0, 0}), ids({}), {}),
                 "from_csr: columns must be int32 [E] on cpu, where offsets are, got Long[0] on cpu");
  EXPECT_MESSAGE(Graph::from_csr(ids({0, 1, 2}), at::tensor({1, 0}), at::tensor({1.f})),
                 "from_csr: weights must be float32 or float64 [2] on cpu, got Float[1] on cpu");
  EXPECT_MESSAGE(Graph::from_csr(ids({0, 1, 2}), at::tensor({1, 0}), at::tensor({1.f, INFINITY})),
                 "from_csr: weights must be finite, got inf at position 1");
}

TEST(Graph, FromPatternSharesThePattern) {
  const PatternPtr pattern = Graph::cycle(5).pattern();
  const Graph graph = Graph::from_pattern(pattern, {}, false);
  EXPECT_EQ(graph.pattern(), pattern);
  EXPECT_EQ(graph.matrix().pattern, pattern);
  expect_same_graph(graph, Graph::cycle(5));
}

TEST(Graph, FromPatternChecksThePattern) {
  EXPECT_MESSAGE(Graph::from_pattern(nullptr, {}, false), "from_pattern: pattern must not be null");
  const auto wide = std::make_shared<const SparsePattern>(1, 2, ids({0, 0}), at::empty({0}, at::kInt));
  EXPECT_MESSAGE(Graph::from_pattern(wide, {}, false),
                 "from_pattern: pattern must be square, got 1 rows and 2 columns");
  EXPECT_MESSAGE(Graph::from_pattern(directed_triangle().pattern(), {}, false),
                 "from_pattern: an undirected graph must be symmetric, got (0, 1) without (1, 0)");
}

TEST(Graph, DegreesCountStoredNeighbours) {
  EXPECT_TRUE(at::equal(Graph::star(5).degrees(), ids({4, 1, 1, 1, 1})));
  EXPECT_EQ(Graph::star(5).max_degree(), 4);
  EXPECT_TRUE(at::equal(directed_triangle().degrees(), ids({2, 1, 1, 0})));
  const Graph loop = Graph::from_edges(2, ids({0, 0}), ids({0, 1}));
  EXPECT_TRUE(at::equal(loop.degrees(), ids({2, 1})));
  EXPECT_EQ(loop.num_edges(), 2);
  EXPECT_EQ(loop.num_entries(), 3);
}

TEST(Graph, NormalisedDividesByTheRootOfBothDegrees) {
  for (const Graph& graph : {Graph::grid({3, 5}), Graph::star(7).to(at::kDouble), directed_triangle()}) {
    const at::Tensor degree = graph.degrees().to(at::kDouble).clamp_min(1);
    const at::Tensor present = (dense_adjacency(graph) != 0).to(at::kDouble);
    const at::Tensor expected = .9 * present / at::sqrt(degree.unsqueeze(0) * degree.unsqueeze(1));
    const Graph normal = graph.normalised(.9);
    EXPECT_TRUE(at::allclose(dense_adjacency(normal), expected, 1e-7, 0));
    EXPECT_EQ(normal.weights().scalar_type(), graph.weights().scalar_type());
    EXPECT_EQ(normal.pattern(), graph.pattern());
  }
  EXPECT_MESSAGE(Graph::path(3).normalised(NAN), "normalised: scale must be finite, got nan");
  EXPECT_MESSAGE(Graph::path(3).normalised(1e60), "normalised: scale must be in the range of Float, got 1e+60");
  EXPECT_EQ(Graph::path(3).to(at::kDouble).normalised(1e60).num_nodes(), 3);
}

TEST(Graph, WeightsThatFloat32CannotHoldAreNotConverted) {
  const Graph graph = Graph::path(2).to(at::kDouble).with_weights(at::full({2}, 1e60, at::kDouble));
  EXPECT_MESSAGE(graph.to(at::kFloat), "to: weights as float32 must be finite, got inf at 0");
}

TEST(Graph, WithWeightsReplacesTheWeightsOnly) {
  const Graph graph = Graph::path(3);
  const at::Tensor weights = at::tensor({1., 1., 2., 2.}).requires_grad_();
  const Graph heavier = graph.with_weights(weights);
  EXPECT_EQ(heavier.pattern(), graph.pattern());
  EXPECT_TRUE(heavier.weights().requires_grad());
  EXPECT_MESSAGE(graph.with_weights({}), "with_weights: weights must be float32 or float64 [4] on cpu, got undefined");
  EXPECT_MESSAGE(graph.with_weights(ids({1, 1, 1, 1})),
                 "with_weights: weights must be float32 or float64 [4] on cpu, got Long[4] on cpu");
  EXPECT_MESSAGE(graph.with_weights(at::tensor({1., 3., 2., 2.})),
                 "with_weights: weights of an undirected graph must be symmetric, got 1 at (0, 1) and 3 at (1, 0)");
}

TEST(Graph, SharesItsWeightsWithTheCaller) {
  const at::Tensor weights = at::tensor({1., 1., 2., 2.}), learnt = weights.clone().requires_grad_();
  const Graph graph = Graph::path(3).with_weights(weights), other = Graph::path(3).with_weights(learnt);
  const Graph same = Graph::from_csr(graph.offsets(), graph.columns(), weights);
  weights.mul_(2);
  {
    const at::NoGradGuard a_step_of_an_optimiser;
    learnt.mul_(2);
  }
  const at::Tensor doubled = at::tensor({2., 2., 4., 4.});
  EXPECT_TRUE(at::equal(graph.weights(), doubled));
  EXPECT_TRUE(at::equal(same.weights(), doubled));
  EXPECT_TRUE(at::equal(other.weights(), doubled));
}

TEST(Graph, ToChangesTheWeightType) {
  const Graph wide = Graph::path(3).to(at::kDouble);
  EXPECT_EQ(wide.weights().scalar_type(), at::kDouble);
  expect_same_graph(wide.to(at::kFloat), Graph::path(3));
  EXPECT_MESSAGE(Graph::path(3).to(at::kHalf), "to: dtype must be Float or Double, got Half");
}

TEST(Graph, ReversedIsTheTranspose) {
  const Graph graph = directed_triangle();
  EXPECT_TRUE(at::equal(dense_adjacency(graph.reversed()), dense_adjacency(graph).t()));
  expect_same_graph(graph.reversed().reversed(), graph);
  EXPECT_EQ(Graph::path(4).reversed().num_edges(), 3);
}

}  // namespace
}  // namespace topomask

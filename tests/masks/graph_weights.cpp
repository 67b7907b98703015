#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <array>

#include "masks/dense_series.h"
#include "support/compare.h"
#include "support/mask_contract.h"
#include "topomask/attention.h"
#include "topomask/diffusion.h"
#include "topomask/dist.h"
#include "topomask/encodings.h"
#include "topomask/forest.h"
#include "topomask/global_tokens.h"
#include "topomask/grf.h"
#include "topomask/masks.h"
#include "topomask/node_kernel.h"
#include "topomask/power_series.h"
#include "topomask/theory.h"
#include "topomask/walking_mask.h"

// Learnable weights of graphs: they have the gradient of the dense formula, or are refused.

namespace topomask {
namespace {

using testing::close;
using testing::dense_series;
using testing::expect_mask_is;
using testing::gradients;
using testing::normal;
using testing::random_coefficients;

/// Signed weights that require grad; a self-loop and a dead end.
Graph directed_graph() {
  const at::Tensor source = at::tensor({0, 0, 1, 1, 2, 3, 3, 4, 5, 5}, at::kLong);
  const at::Tensor target = at::tensor({1, 3, 1, 2, 0, 4, 0, 2, 0, 6}, at::kLong);
  const Graph graph = Graph::from_edges(7, source, target, {}, {.directed = true});
  const at::Tensor weights = at::tensor({.5, -.4, .3, .7, .6, .2, .8, .4, .9, -.2}, at::kDouble);
  return graph.with_weights(weights.requires_grad_());
}

Graph undirected_graph() {
  const Graph graph = Graph::erdos_renyi(11, 0.3, 4).to(at::kDouble);
  const at::Tensor dense = normal({11, 11}, 2).abs() * 0.4 + 0.1, symmetric = dense + dense.mT();
  const at::Tensor places = at::repeat_interleave(graph.degrees()) * 11 + graph.columns().to(at::kLong);
  return graph.with_weights(symmetric.flatten().index_select(0, places).requires_grad_());
}

/// expect_mask_is compares the gradients of all parameters, so that the weights must be the last of them.
void expect_learns(const MaskPtr& mask, const at::Tensor& weights, const at::Tensor& reference,
                   double tolerance = 1e-10) {
  ASSERT_EQ(mask->parameters().size(), 2);
  ASSERT_TRUE(mask->parameters()[1].is_same(weights));
  expect_mask_is(mask, reference, tolerance);
}

TEST(GraphWeights, AreLearnableInPowerSeries) {
  for (const Graph& graph : {directed_graph(), undirected_graph(), directed_graph().reversed()}) {
    for (const at::Tensor& alpha :
         {random_coefficients({1}), random_coefficients({2}), random_coefficients({4}), random_coefficients({2, 5})}) {
      const at::Tensor dense = dense_series(graph, alpha);
      expect_learns(power_series_mask(graph, alpha), graph.weights(), dense);
      expect_learns(power_series_mask(graph, alpha, {.max_sparse_entries = 1}), graph.weights(), dense);
    }
  }
}

TEST(GraphWeights, AreLearnableInNeighbours) {
  for (const Graph& graph : {directed_graph(), undirected_graph(), directed_graph().reversed()}) {
    const MaskPtr mask = weighted_neighbours_mask(graph);
    ASSERT_EQ(mask->parameters().size(), 1);
    EXPECT_TRUE(mask->parameters()[0].is_same(graph.weights()));
    const at::Tensor w = graph.matrix().dense();
    expect_mask_is(mask, w + at::eye(graph.num_nodes(), w.options()));
  }
  EXPECT_EQ(weighted_neighbours_mask(Graph::path(0))->size(), 0);
  const Graph path = Graph::path(4);
  const at::Tensor own = at::arange(6, at::kDouble).requires_grad_();  // not symmetric
  const at::Tensor dense = SparseMatrix{path.pattern(), own}.dense() + at::eye(4, at::kDouble);
  expect_mask_is(weighted_neighbours_mask(path, own), dense);
  EXPECT_ERROR(weighted_neighbours_mask(path, own.slice(0, 1)),
               "weighted_neighbours_mask: weights must be Float or Double [6] on cpu, got Double[5] on cpu");
  EXPECT_ERROR(weighted_neighbours_mask(path, at::full({6}, NAN)), "weighted_neighbours_mask: weights must be finite");
}

TEST(GraphWeights, AreLearnableWhereTheSeriesIsConstant) {
  const Graph graph = directed_graph();
  const at::Tensor alpha = random_coefficients({4}).detach();
  expect_learns(power_series_mask(graph, alpha), graph.weights(), dense_series(graph, alpha));
}

TEST(GraphWeights, HaveAGradientAtZero) {
  // W_34 = 0: no power of W sees the edge, and its gradient is not 0.
  Graph graph = directed_graph();
  at::Tensor w = graph.weights().detach().clone();
  w[5] = 0;
  graph = graph.with_weights(w.requires_grad_());
  const at::Tensor alpha = random_coefficients({4}), g = normal({7, 7}, 2);
  const at::Tensor want = gradients(dense_series(graph, alpha), g, {w})[0];
  EXPECT_GT(want[5].abs().item<double>(), 1e-3);
  for (const int64_t entries : {1, 1000}) {
    const MaskPtr mask = power_series_mask(graph, alpha, {.max_sparse_entries = entries});
    EXPECT_TRUE(close(gradients(mask->dense(), g, {w})[0], want, 1e-12)) << entries;
  }
}

TEST(GraphWeights, HaveOneGradientByEveryRouteWhereEdgesShareThem) {
  // One parameter for both entries of an edge.
  const Graph graph = Graph::grid({3, 4}).to(at::kDouble);
  const at::Tensor rows = at::repeat_interleave(graph.degrees()), columns = graph.columns().to(at::kLong);
  const at::Tensor edge =
      std::get<1>(at::_unique(at::minimum(rows, columns) * 12 + at::maximum(rows, columns), true, true));
  const at::Tensor w = (normal({17}, 3).abs() * 0.3 + 0.1).requires_grad_();
  const Graph weighted = graph.with_weights(w.index_select(0, edge));
  const at::Tensor alpha = random_coefficients({3}), lambda = at::scalar_tensor(0.7, at::kDouble);
  const at::Tensor a = weighted.matrix().dense(), heat = at::linalg_matrix_exp(-lambda * (a.sum(1).diag() - a));
  const at::Tensor q = normal({12, 3}, 4).abs(), k = normal({12, 3}, 5).abs(), v = normal({12, 2}, 6);
  const std::array<std::pair<MaskPtr, at::Tensor>, 3> cases{
      {{power_series_mask(weighted, alpha), dense_series(weighted, alpha)},
       {diffusion_mask(weighted, lambda, {.tolerance = 1e-14}), heat},
       {with_global_tokens(power_series_mask(weighted, alpha), 1),
        at::constant_pad_nd(dense_series(weighted, alpha), {1, 0, 1, 0}, 1)}}};
  for (const auto& [mask, reference] : cases) {
    const auto grown = [&](const at::Tensor& x) { return x.narrow(0, 0, 1).expand({mask->size() - 12, -1}); };
    const at::Tensor more_q = at::cat({grown(q), q}), more_k = at::cat({grown(k), k}), more_v = at::cat({grown(v), v});
    const at::Tensor weights = at::matmul(more_q, more_k.mT()) * reference;
    const at::Tensor expected = at::matmul(weights, more_v) / weights.sum(-1, true), g = normal(expected.sizes(), 8);
    const auto want = torch::autograd::grad({expected}, {w}, {g}, /*retain_graph=*/true)[0];
    for (const Route route : {Route::dense, Route::operator_, Route::sparse, Route::features}) {
      if ((route == Route::sparse || route == Route::features) && !mask->sparse()) continue;
      const at::Tensor out =
          attention(more_q, more_k, more_v, mask, {.features = FeatureMap::identity(), .route = route});
      const auto got = torch::autograd::grad({out}, {w}, {g}, /*retain_graph=*/true)[0];
      EXPECT_TRUE(close(got, want, 1e-9)) << mask->name() << " " << to_string(route);
    }
  }
}

TEST(GraphWeights, AreFollowedWhenTheyChangeInPlace) {
  const Graph graph = undirected_graph();
  at::Tensor w = graph.weights();
  const at::Tensor alpha = random_coefficients({4}).detach(), lambda = at::scalar_tensor(0.7, at::kDouble);
  const MaskPtr powers = power_series_mask(graph, alpha);
  const MaskPtr heat = diffusion_mask(graph, lambda, {.tolerance = 1e-13});
  for (int step = 0; step < 2; ++step) {
    const at::NoGradGuard no_grad;
    const at::Tensor a = graph.matrix().dense();
    EXPECT_TRUE(close(powers->sparse()->dense(), dense_series(graph, alpha), 1e-12));
    EXPECT_TRUE(close(powers->Mask::dense(), dense_series(graph, alpha), 1e-12));
    EXPECT_TRUE(close(heat->dense(), at::linalg_matrix_exp(-lambda * (a.sum(1).diag() - a)), 1e-10));
    w.mul_(0.5).add_(0.2);
  }
  const at::NoGradGuard no_grad;
  w[0] += 1;
  EXPECT_ERROR(heat->dense(), "diffusion_mask: weights of an undirected graph must stay symmetric");
}

/// An optimiser's weights that are frozen and go on changing, as those of a teacher that follows a student.
TEST(GraphWeights, AreFollowedAfterTheyWereFrozen) {
  const Graph graph = undirected_graph();
  at::Tensor w = graph.weights();
  const at::Tensor alpha = random_coefficients({4}).detach(), lambda = at::scalar_tensor(0.7, at::kDouble);
  const MaskPtr powers = power_series_mask(graph, alpha);
  const MaskPtr heat = diffusion_mask(graph, lambda, {.tolerance = 1e-13});
  w.requires_grad_(false);
  for (int step = 0; step < 3; ++step) {
    const at::Tensor a = graph.matrix().dense();
    EXPECT_TRUE(close(powers->sparse()->dense(), dense_series(graph, alpha), 1e-12)) << step;
    EXPECT_TRUE(close(powers->Mask::dense(), dense_series(graph, alpha), 1e-12)) << step;
    EXPECT_TRUE(close(heat->dense(), at::linalg_matrix_exp(-lambda * (a.sum(1).diag() - a)), 1e-10)) << step;
    w.mul_(0.5).add_(0.2);
  }
}

TEST(GraphWeights, AreConstantWhereTheyWereWhenTheMaskWasMade) {
  const Graph graph = Graph::cycle(7).to(at::kDouble);
  const at::Tensor lambda = at::scalar_tensor(0.7, at::kDouble).requires_grad_();
  const MaskPtr heat = diffusion_mask(graph, lambda);
  at::Tensor(graph.weights()).requires_grad_();
  EXPECT_EQ(heat->parameters().size(), 1);  // its T is made of the weights as they were
}

TEST(GraphWeights, AreLearnableThroughTransforms) {
  const at::Tensor alpha = random_coefficients({3});
  const Graph graph = directed_graph(), other = directed_graph();
  const at::Tensor order = at::tensor({3, 1, 6, 0, 2, 5, 4}, at::kLong);
  const Graph whole[] = {permuted(graph, order),
                         induced_subgraph(graph, order.narrow(0, 0, 5)),
                         graph.reversed(),
                         graph.to(at::kDouble),
                         cartesian_product(graph, other),
                         GraphBatch(std::array{graph, other}).graph()};
  for (const Graph& transformed : whole) {
    const at::Tensor dense = dense_series(transformed, alpha), g = normal(dense.sizes(), 3);
    const auto gradient = [&](const at::Tensor& matrix) {
      return torch::autograd::grad({matrix}, {graph.weights()}, {g}, /*retain_graph=*/true)[0];
    };
    EXPECT_GT(gradient(dense).abs().max().item<double>(), 0);
    EXPECT_TRUE(close(gradient(power_series_mask(transformed, alpha)->dense()), gradient(dense), 1e-12));
  }
}

TEST(GraphWeights, ArePartOfForests) {
  const Graph graph = Graph::path(6).to(at::kDouble);
  const Graph weighted = graph.with_weights(at::ones({10}, at::kDouble).requires_grad_());
  const MaskPtr mask = tree_mask(Forest::from_graph(weighted), DistanceFunction::exponential(-0.5));
  EXPECT_GT(gradients(mask->dense(), at::ones({6, 6}, at::kDouble), {weighted.weights()})[0].abs().sum().item<double>(),
            0.1);
  EXPECT_ERROR(tree_mask(Forest::from_graph(weighted), DistanceFunction::polynomial({1, 1})),
               "tree_mask: weights must not require grad unless f is exponential");
}

TEST(GraphWeights, AreRefusedWhereTheirGradientWouldBeLost) {
  const Graph graph = undirected_graph();
  const at::Tensor lambda = at::scalar_tensor(0.7, at::kDouble), f = random_coefficients({3});
  EXPECT_ERROR(graph.normalised(), "normalised: graph must have weights that do not require grad");
  EXPECT_ERROR(neighbours_mask(graph), "neighbours_mask: graph must have weights that do not require grad");
  EXPECT_ERROR(product_diffusion_mask({graph}, lambda),
               "product_diffusion_mask: factors must have weights that do not");
  EXPECT_ERROR(centrality_mask(graph, at::full({4}, 0.5, at::kDouble)),
               "centrality_mask: graph must have weights that");
  EXPECT_ERROR(shortest_path_mask(graph, f), "shortest_path_mask: graph must have weights that do not require grad");
  EXPECT_ERROR(walking_mask(graph, f), "walking_mask: graph must have weights that do not require grad");
  const WalkTable walks = sample_walks(graph, {.max_hops = 3});
  const std::string loads = ": walks must have loads that do not require grad";
  EXPECT_ERROR(ad_hoc_mask(walks, f), "ad_hoc_mask" + loads);
  EXPECT_ERROR(node_kernel_mask(walks), "node_kernel_mask" + loads);
  EXPECT_ERROR(node_frequency_mask(walks), "node_frequency_mask" + loads);
  const Graph constant = graph.with_weights(graph.weights().detach());
  EXPECT_ERROR(with_exact_head(walks, constant), "with_exact_head" + loads);
  EXPECT_ERROR(with_exact_head(sample_walks(constant), graph), "with_exact_head: graph must have weights that do not");
  EXPECT_ERROR(extend_walks(walks, constant, 1), "extend_walks: table must have loads that do not require grad");
  EXPECT_ERROR(extend_walks(sample_walks(constant), graph, 1), "extend_walks: graph must have weights that do not");
  EXPECT_ERROR(sample_walks(graph, {.group_products = true}), "group_products must be false where the graph's weights");
  EXPECT_ERROR(sample_walks(graph, {.proposal = Proposal::weights}), "sample_walks: proposal must be uniform where");
  const at::Tensor nodes = at::arange(11).view({11, 1, 1});
  EXPECT_ERROR(walk_table_from_walks(graph, nodes), "walk_table_from_walks: graph must have weights that do not");
  EXPECT_ERROR(walk_table_from_walks(constant, nodes, {}, at::ones({11, 1, 1}, at::kDouble).requires_grad_()),
               "walk_table_from_walks: loads must not require grad");
  const Partition whole = partition(graph, 1);
  EXPECT_ERROR(shard_of(graph, whole, 0), "shard: graph must have weights that do not require grad");
  EXPECT_ERROR(sample_walks_from(graph, whole.nodes(0)), "sample_walks_from: graph must have weights that do not");
  const at::Tensor none = at::empty({0}, at::kLong);
  EXPECT_ERROR(travel(graph, {}, 0, {none, none, none, at::empty({0}, at::kDouble)}),
               "travel: graph must have weights that do not require grad");
  // Detached, as the messages say, they are taken.
  EXPECT_EQ(neighbours_mask(constant)->size(), 11);
  // What measures has no gradient to lose.
  EXPECT_GE(mask_error(graph, {.walkers = 4, .max_hops = 2}, f).relative, 0);
}

}  // namespace
}  // namespace topomask

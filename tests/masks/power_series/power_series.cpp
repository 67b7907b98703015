#include "topomask/power_series.h"

#include <ATen/Parallel.h>

#include <cmath>

#include "masks/dense_series.h"
#include "sparse/hops.h"
#include "support/compare.h"
#include "support/golden.h"
#include "support/mask_contract.h"
#include "topomask/attention.h"
#include "topomask/global_tokens.h"

namespace topomask {
namespace {

using testing::close;
using testing::dense_series;
using testing::expect_mask_is;
using testing::normal;
using testing::random_coefficients;

TEST(PowerSeries, IsTheSumOfPowers) {
  const at::Tensor points = normal({31, 2}, 8);
  for (const Graph& graph : {Graph::path(1), Graph::path(7), Graph::cycle(5), Graph::grid({4, 5}), Graph::star(9),
                             Graph::complete(20), Graph::erdos_renyi(25, 0.5, 4), Graph::erdos_renyi(30, 0.1, 3),
                             Graph::knn(points, {.k = 3, .directed = true})}) {
    const Graph weighted = graph.to(at::kDouble).normalised(0.9);
    for (const at::Tensor& alpha : {random_coefficients({1}), random_coefficients({4}), random_coefficients({2, 5}),
                                    random_coefficients({1, 3})}) {
      const at::Tensor dense = dense_series(weighted, alpha);
      expect_mask_is(power_series_mask(weighted, alpha), alpha.dim() == 2 && alpha.size(0) == 1 ? dense[0] : dense);
    }
  }
}

TEST(PowerSeries, SharesABasisBetweenMasks) {
  const Graph graph = Graph::grid({6, 7}).to(at::kDouble).normalised(0.9);
  const PowerSeriesBasisPtr basis = power_series_basis(graph, 4);
  const MaskPtr first = power_series_mask(basis, random_coefficients({4}));
  for (const at::Tensor& alpha : {random_coefficients({4}), random_coefficients({3, 4})}) {
    const MaskPtr mask = power_series_mask(basis, alpha);
    expect_mask_is(mask, dense_series(graph, alpha));
    EXPECT_EQ(mask->sparse()->pattern, first->sparse()->pattern) << "one K-hop pattern for all of them";
  }
  // α computed in every step: the gradient goes through the computation.
  const at::Tensor logits = random_coefficients({4}).detach().requires_grad_();
  const at::Tensor x = normal({42, 3}, 5);
  power_series_mask(basis, at::softmax(logits, 0))->matmul(x).sum().backward();
  const at::Tensor by_basis = logits.grad().clone();
  logits.mutable_grad().zero_();
  power_series_mask(graph, at::softmax(logits, 0))->matmul(x).sum().backward();
  EXPECT_TRUE(close(by_basis, logits.grad(), 1e-12));

  EXPECT_ERROR(power_series_basis(graph, 0), "power_series_basis: terms must be >= 1, got 0");
  EXPECT_ERROR(power_series_mask(basis, random_coefficients({5})), "alpha must have 4 coefficients as the basis has");
  EXPECT_ERROR(power_series_mask(PowerSeriesBasisPtr(), random_coefficients({5})), "basis must not be null");
}

/// Weights and coefficients that are computed in every step leave the K-hop pattern of the graph as it is.
TEST(PowerSeries, OverOneGraphShareTheirPattern) {
  const Graph graph = Graph::grid({6, 7}).to(at::kDouble).normalised(0.9);
  const auto pattern_of = [&](const Graph& weighted, int64_t terms) {
    return power_series_mask(weighted, random_coefficients({terms}))->sparse()->pattern;
  };
  const PatternPtr first = pattern_of(graph, 4);
  EXPECT_EQ(pattern_of(graph, 4), first);
  EXPECT_EQ(pattern_of(graph.with_weights(graph.weights() * 2), 4), first);
  EXPECT_NE(pattern_of(graph, 3), first);
  EXPECT_NE(pattern_of(Graph::grid({6, 7}).to(at::kDouble), 4), first) << "a graph of its own";
  const at::Tensor weights = graph.weights().clone().requires_grad_(), alpha = random_coefficients({4});
  const MaskPtr learnt = power_series_mask(graph.with_weights(weights), alpha);
  EXPECT_EQ(learnt->sparse()->pattern, first);
  EXPECT_EQ(learnt->rebuild({alpha, weights * 3})->sparse()->pattern, first);
}

/// Powers are computed once, Horner's rule reads the weights in every call: a write to constant weights reaches
/// neither.
TEST(PowerSeries, KeepsConstantWeightsAsTheyWereGiven) {
  const Graph graph = Graph::grid({4, 5}).to(at::kDouble).normalised(0.9);
  const at::Tensor weights = graph.weights().clone(), alpha = random_coefficients({3}), x = normal({20, 2}, 4);
  const MaskPtr mask = power_series_mask(graph.with_weights(weights), alpha);
  const at::Tensor expected = at::matmul(dense_series(graph, alpha), x);
  mask->sparse();
  weights.mul_(2);
  EXPECT_TRUE(close(mask->matmul(x), expected, 1e-12));
  EXPECT_TRUE(close(matmul(*mask->sparse(), x), expected, 1e-12));
  EXPECT_TRUE(close(mask->rebuild({alpha})->matmul(x), expected, 1e-12));
  EXPECT_TRUE(close(at::matmul(mask->dense(), x), expected, 1e-12));
}

TEST(PowerSeries, TakesSignedWeightsAndSelfLoops) {
  const at::Tensor source = at::tensor({0, 0, 1, 3}, at::kLong), target = at::tensor({0, 1, 2, 3}, at::kLong);
  const Graph graph = Graph::from_edges(5, source, target, at::tensor({0.5, -0.3, 0.7, 0.2}, at::kDouble));
  const at::Tensor alpha = random_coefficients({2, 4});
  expect_mask_is(power_series_mask(graph, alpha), dense_series(graph, alpha), 1e-9);
}

/// Entries of W^k leave float32 where α_k is 0 already.
TEST(PowerSeries, OfPowersThatOverflowIsFinite) {
  const at::Tensor exponential = at::empty({80}, at::kDouble);
  for (int64_t k = 0; k < 80; ++k) exponential[k] = 1 / std::tgamma(static_cast<double>(k) + 1);
  at::Tensor padded = at::zeros({22}, at::kDouble);
  padded[0] = 1, padded[1] = 0.5;
  const std::vector<std::pair<Graph, at::Tensor>> cases{{Graph::grid({9, 9}), exponential},
                                                        {Graph::complete(120), padded}};
  for (const auto& [graph, alpha] : cases) {
    const at::Tensor expected = power_series_mask(graph.to(at::kDouble), alpha)->dense();
    const MaskPtr mask = power_series_mask(graph, alpha.to(at::kFloat));
    EXPECT_TRUE(close(mask->dense().to(at::kDouble), expected, 1e-5)) << graph.num_nodes();
    EXPECT_TRUE(close(mask->sparse()->dense().to(at::kDouble), expected, 1e-5)) << graph.num_nodes();
  }
}

TEST(PowerSeries, WorksWithoutItsExplicitForm) {
  const Graph graph = Graph::grid({4, 4}).to(at::kDouble).normalised();
  const at::Tensor alpha = random_coefficients({2, 4});
  const MaskPtr mask = power_series_mask(graph, alpha, {.max_sparse_entries = 10});
  EXPECT_FALSE(mask->sparse());
  EXPECT_FALSE(mask->counts().sparse_entries);
  expect_mask_is(mask, dense_series(graph, alpha));
}

/// A star has few edges, and all its nodes are within two hops. An estimate is capped at the limit, whatever N is.
TEST(PowerSeries, HasNoExplicitFormBeyondTheLimit) {
  for (const int64_t nodes : {8191, 8192, 8193, 9000, 16384, 16385}) {
    const Graph graph = Graph::star(nodes);
    constexpr int64_t kLimit = int64_t{1} << 26;
    EXPECT_EQ(power_series_mask(graph, at::ones({3}))->counts().sparse_entries.has_value(), nodes < 8192) << nodes;
    const double estimate = estimate_hop_entries(*graph.pattern(), 3, kLimit);
    EXPECT_EQ(estimate >= static_cast<double>(kLimit), nodes >= 8192) << nodes << " nodes, estimate " << estimate;
  }
  const MaskPtr complete = power_series_mask(Graph::complete(33), at::ones({2}), {.max_sparse_entries = 1000});
  EXPECT_FALSE(complete->sparse());
}

TEST(PowerSeries, CarriesGlobalTokens) {
  const Graph graph = Graph::grid({3, 5}).to(at::kDouble).normalised(0.9);
  const at::Tensor alpha = random_coefficients({2, 4});
  expect_mask_is(with_global_tokens(power_series_mask(graph, alpha), 2),
                 at::constant_pad_nd(dense_series(graph, alpha), {2, 0, 2, 0}, 1));
}

TEST(PowerSeries, RefusesAlphaThatIsEmptyOrNotFinite) {
  const Graph graph = Graph::path(3);
  EXPECT_ERROR(power_series_mask(graph, at::empty({0})),
               "power_series_mask: alpha must have at least one coefficient, got Float[0]");
  EXPECT_ERROR(power_series_mask(graph, at::empty({2, 0})),
               "alpha must have at least one coefficient, got Float[2, 0]");
  at::Tensor alpha = at::ones({2, 3});
  alpha[1][2] = NAN;
  EXPECT_ERROR(power_series_mask(graph, alpha), "power_series_mask: alpha must be finite, got nan at [1, 2]");
  EXPECT_ERROR(power_series_mask(graph, at::tensor({1.F, -INFINITY})), "alpha must be finite, got -inf at 1");
  EXPECT_ERROR(power_series_mask(graph, at::tensor({1.F, INFINITY}).requires_grad_()), "got inf at 1");
}

TEST(PowerSeries, OfZerosIsZeroOnEveryRoute) {
  const MaskPtr mask = power_series_mask(Graph::path(3), at::zeros({2}));
  EXPECT_TRUE(close(mask->matmul(at::ones({3, 2})), at::zeros({3, 2}), 0));
  const at::Tensor x = at::rand({3, 4});
  for (Route route : {Route::dense, Route::sparse, Route::features, Route::operator_}) {
    EXPECT_TRUE(close(attention(x, x, x, mask, {.route = route}), at::zeros({3, 4}), 0)) << to_string(route);
  }
}

TEST(PowerSeries, NoticesChangedCoefficients) {
  const Graph graph = Graph::path(4);
  at::Tensor alpha = at::ones({2});
  const MaskPtr mask = power_series_mask(graph, alpha);
  const at::Tensor before = mask->sparse()->values.clone();
  EXPECT_TRUE(mask->sparse()->values.is_same(mask->sparse()->values)) << "kept while alpha stays";
  alpha.mul_(3);
  EXPECT_TRUE(close(mask->sparse()->values, before * 3, 0));
}

TEST(PowerSeries, EstimatesItsEntries) {
  const Graph graph = Graph::grid({40, 40});
  const MaskPtr mask = power_series_mask(graph, at::ones({4}));
  const double estimate = *mask->counts().sparse_entries;
  const auto exact = static_cast<double>(mask->sparse()->pattern->entries());
  EXPECT_NEAR(estimate / exact, 1, 0.1);
  EXPECT_EQ(*mask->counts().sparse_entries, exact) << "once built, it is known";
}

TEST(PowerSeries, IsTheSameForAnyNumberOfThreads) {
  const Graph graph = Graph::erdos_renyi(701, 0.01, 2).normalised(0.9);
  const int threads = at::get_num_threads();
  std::vector<at::Tensor> values;
  for (int t : {1, 2, 7}) {
    at::set_num_threads(t);
    values.push_back(power_series_mask(graph, at::ones({4}))->sparse()->values);
  }
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(values[0], values[1]) && at::equal(values[0], values[2]));
}

TEST(PowerSeries, CanBeTrainedThroughAfterInference) {
  const Graph graph = Graph::grid({4, 5}).normalised(0.9);
  const MaskPtr mask = power_series_mask(graph, at::ones({3}));
  {
    const c10::InferenceMode inference;
    attention(at::ones({20, 4}), at::ones({20, 4}), at::ones({20, 4}), mask, {.route = Route::sparse});
  }
  const at::Tensor q = at::rand({20, 4}).requires_grad_();
  const at::Tensor out = attention(q, q, q, mask, {.route = Route::sparse});
  EXPECT_EQ(testing::gradients(out, at::ones_like(out), {q})[0].sizes(), q.sizes());
}

TEST(PowerSeries, SaysWhatIsWrong) {
  const Graph graph = Graph::path(3);
  EXPECT_ERROR(power_series_mask(graph, at::ones({2}, at::kLong)),
               "power_series_mask: alpha must be Float or Double, [K] or [H, K], got Long[2]");
  EXPECT_ERROR(power_series_mask(graph, at::ones({0, 2})), "alpha must have at least one head");
  EXPECT_ERROR(power_series_mask(graph, at::ones({2}, at::kDouble)),
               "alpha must be Float as the graph's weights are, got Double[2]");
  EXPECT_ERROR(power_series_mask(graph, at::ones({2}), {.max_sparse_entries = -1}),
               "max_sparse_entries must be >= 0, got -1");
}

}  // namespace
}  // namespace topomask

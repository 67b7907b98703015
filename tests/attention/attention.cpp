#include "topomask/attention.h"

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "support/compare.h"
#include "support/mask_contract.h"
#include "topomask/masks.h"
#include "topomask/power_series.h"

namespace topomask {
namespace {

using testing::close;
using testing::gradients;
using testing::normal;

constexpr Route kRoutes[] = {Route::dense, Route::sparse, Route::features, Route::operator_};

MaskPtr series_mask(const Graph& graph, at::ScalarType dtype) {
  const at::Tensor alpha = at::tensor({1.0, 0.5, 0.25}, dtype).requires_grad_();
  return power_series_mask(graph.to(dtype).normalised(0.9), alpha);
}

TEST(Attention, AgreesBetweenRoutesInFloat32) {
  const MaskPtr mask = series_mask(Graph::grid({8, 9}), at::kFloat),
                exact = series_mask(Graph::grid({8, 9}), at::kDouble);
  const at::Tensor q = normal({2, 72, 16}, 1), k = normal({2, 72, 16}, 2), v = normal({2, 72, 24}, 3);
  const at::Tensor expected = attention(q, k, v, exact, {.route = Route::dense});
  for (Route route : kRoutes) {
    const at::Tensor out = attention(q.to(at::kFloat), k.to(at::kFloat), v.to(at::kFloat), mask, {.route = route});
    EXPECT_EQ(out.scalar_type(), at::kFloat);
    EXPECT_TRUE(close(out, expected, 1e-5)) << to_string(route);
  }
}

TEST(Attention, AccumulatesBfloat16InFloat32) {
  const Graph graph = Graph::grid({8, 9});
  const MaskPtr mask = series_mask(graph, at::kFloat);
  const auto bf16 = [](uint64_t seed) { return normal({2, 72, 16}, seed).to(at::kBFloat16).requires_grad_(); };
  const at::Tensor q = bf16(1), k = bf16(2), v = bf16(3);
  // ReLU is exact in bfloat16, so the only rounding left is that of the result.
  const at::Tensor expected =
      attention(q.to(at::kFloat), k.to(at::kFloat), v.to(at::kFloat), mask, {.route = Route::dense});
  const at::Tensor g = normal({2, 72, 16}, 4).to(at::kBFloat16);
  std::vector<at::Tensor> inputs{q, k, v, mask->parameters()[0]};
  const auto expected_grads = gradients(expected, g.to(at::kFloat), inputs);
  for (Route route : kRoutes) {
    const at::Tensor out = attention(q, k, v, mask, {.route = route});
    EXPECT_EQ(out.scalar_type(), at::kBFloat16);
    EXPECT_TRUE(close(out, expected, 4e-3)) << to_string(route);
    const auto grads = gradients(out, g, inputs);
    for (size_t i = 0; i < grads.size(); ++i) {
      EXPECT_EQ(grads[i].scalar_type(), inputs[i].scalar_type());
      EXPECT_TRUE(close(grads[i], expected_grads[i], 1e-2)) << to_string(route) << ", gradient " << i;
    }
  }
}

TEST(Attention, ARowWithoutEntriesGivesZeros) {
  const auto pattern =
      std::make_shared<SparsePattern>(3, 3, at::tensor({0, 1, 1, 2}, at::kLong), at::tensor({0, 2}, at::kInt));
  const MaskPtr mask = sparse_mask({pattern, at::ones({2})});
  const at::Tensor x = at::rand({3, 4}) + 0.1;
  for (Route route : kRoutes) {
    const at::Tensor out = attention(x, x, x, mask, {.route = route});
    EXPECT_TRUE(close(out[1], at::zeros({4}), 0)) << to_string(route);
    EXPECT_TRUE(close(out[0], x[0], 1e-6) && close(out[2], x[2], 1e-6)) << to_string(route);
  }
  for (Route route : {Route::dense, Route::sparse}) {
    EXPECT_TRUE(close(softmax_attention(x, x, x, mask, {.route = route})[1], at::zeros({4}), 0)) << to_string(route);
  }
}

TEST(Attention, KeepsDenominatorsAwayFromZero) {
  // Row 0 sums to 1e-9, row 1 to -1e-9: both are moved to eps with their sign.
  const at::Tensor matrix = at::tensor({1.0, -1.0 + 1e-9, -1.0, 1.0 - 1e-9}, at::kDouble).view({2, 2});
  const auto pattern =
      std::make_shared<SparsePattern>(2, 2, at::tensor({0, 2, 4}, at::kLong), at::tensor({0, 1, 0, 1}, at::kInt));
  const at::Tensor values = matrix.view({-1}).clone().requires_grad_();
  const MaskPtr mask = sparse_mask({pattern, values});
  const at::Tensor ones = at::ones({2, 1}, at::kDouble), v = at::tensor({2.0, 1.0}, at::kDouble).view({2, 1});
  const at::Tensor expected = at::matmul(matrix, v) / at::tensor({1e-3, -1e-3}, at::kDouble).view({2, 1});
  for (Route route : kRoutes) {
    const at::Tensor out =
        attention(ones, ones, v, mask, {.features = FeatureMap::identity(), .route = route, .eps = 1e-3});
    EXPECT_TRUE(close(out, expected, 1e-12)) << to_string(route);
    // The clamped denominator is a constant: ∂out_0/∂M_0j = v_j / eps.
    const at::Tensor grad = gradients(out.select(0, 0).sum(), at::ones({}, at::kDouble), {values})[0];
    EXPECT_TRUE(close(grad, at::tensor({2e3, 1e3, 0.0, 0.0}, at::kDouble), 1e-12)) << to_string(route);
  }
}

TEST(Attention, AnIsolatedNodeAttendsToItself) {
  const Graph graph = Graph::from_edges(3, at::tensor({0}, at::kLong), at::tensor({1}, at::kLong));
  const MaskPtr mask = power_series_mask(graph.normalised(), at::ones({3}));
  const at::Tensor x = at::rand({3, 4}) + 0.1;
  for (Route route : kRoutes)
    EXPECT_TRUE(close(attention(x, x, x, mask, {.route = route})[2], x[2], 1e-6)) << to_string(route);
}

TEST(Attention, DoesNotLeakBetweenTheGraphsOfABatch) {
  const std::vector<Graph> graphs{Graph::path(4).normalised(), Graph::grid({2, 3}).normalised(),
                                  Graph::path(1).normalised()};
  const GraphBatch batch(graphs);
  const at::Tensor x = at::rand({11, 5}) + 0.1;
  const at::Tensor out = attention(x, x, x, power_series_mask(batch.graph(), at::ones({4})));
  const auto parts = batch.split(x), outs = batch.split(out);
  for (size_t g = 0; g < graphs.size(); ++g) {
    const at::Tensor alone = attention(parts[g], parts[g], parts[g], power_series_mask(graphs[g], at::ones({4})));
    EXPECT_TRUE(close(outs[g], alone, 1e-6)) << g;
  }
}

TEST(Attention, TakesEmptyInputs) {
  const at::Tensor none = at::empty({2, 0, 3}), no_batch = at::empty({0, 4, 3}), no_values = at::empty({4, 0});
  EXPECT_EQ(attention(none, none, none, neighbours_mask(Graph::path(0))).sizes(), none.sizes());
  for (Route route : kRoutes) {
    const MaskPtr mask = neighbours_mask(Graph::path(4));
    EXPECT_EQ(attention(no_batch, no_batch, no_batch, mask, {.route = route}).sizes(), no_batch.sizes());
    EXPECT_EQ(attention(at::rand({4, 3}), at::rand({4, 3}), no_values, mask, {.route = route}).sizes(),
              no_values.sizes());
    // No feature: every weight is 0, every row is zero.
    const at::Tensor nothing = at::empty({4, 0}), v = at::rand({4, 2});
    EXPECT_TRUE(close(attention(nothing, nothing, v, mask, {.route = route}), at::zeros({4, 2}), 0))
        << to_string(route);
  }
  EXPECT_EQ(softmax_attention(none, none, none, neighbours_mask(Graph::path(0))).sizes(), none.sizes());
}

/// All scores are 0: the weights of a row are those of the mask.
TEST(Attention, OfSoftmaxWithoutFeaturesIsTheMeanByTheMask) {
  const at::Tensor nothing = at::empty({4, 0}, at::kDouble), v = testing::normal({4, 2}, 1).requires_grad_();
  const at::Tensor matrix = (testing::normal({4, 4}, 2).abs() + 0.1).requires_grad_();
  for (const SoftmaxMask way : {SoftmaxMask::additive, SoftmaxMask::multiplicative}) {
    const auto by = [&](Route route) {
      const at::Tensor out = softmax_attention(nothing, nothing, v, dense_mask(matrix), {.mask = way, .route = route});
      auto all = gradients(out, testing::normal({4, 2}, 3), {v, matrix});
      all.push_back(out);
      return all;
    };
    const auto expected = by(Route::dense);
    EXPECT_GT(expected.back().abs().max().item<double>(), 0.01);
    for (const Route route : {Route::automatic, Route::fused, Route::strips}) {
      const auto actual = by(route);
      for (size_t i = 0; i < expected.size(); ++i)
        EXPECT_TRUE(close(actual[i], expected[i], 1e-12)) << to_string(route);
    }
  }
}

TEST(Attention, RefusesToBeDifferentiatedTwice) {
  const MaskPtr mask = causal_mask(5), series = series_mask(Graph::path(5), at::kDouble);
  const at::Tensor q = testing::normal({5, 3}, 1).requires_grad_();
  const auto twice = [&](const at::Tensor& out) {
    return torch::autograd::grad({out.sum()}, {q}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
  };
  constexpr const char* kRefused = "create_graph must be False; masks and attention are differentiable once";
  for (const Route route : {Route::operator_, Route::strips}) {
    EXPECT_ERROR(twice(attention(q, q, q, mask, {.route = route})), kRefused);
    EXPECT_ERROR(twice(attention(q, q, q, series, {.route = route})), kRefused);
  }
  EXPECT_ERROR(twice(series->matmul(q)), kRefused);
}

TEST(Attention, TakesFeaturesThatComeInAnotherDtype) {
  const MaskPtr mask = neighbours_mask(Graph::path(9));
  const at::Tensor x = testing::normal({9, 16}, 1).to(at::kBFloat16);
  const auto map = FeatureMap::custom("wide softmax", [](const at::Tensor& t) { return t.to(at::kFloat).softmax(-1); });
  const auto by = [&](Route route) { return attention(x, x, x, mask, {.features = map, .route = route}); };
  for (const Route route : kRoutes) EXPECT_TRUE(close(by(route), by(Route::dense), 2e-2)) << to_string(route);
  const auto wrong = FeatureMap::custom("mean", [](const at::Tensor& t) { return t.mean(-1); });
  EXPECT_ERROR(
      attention(x, x, x, mask, {.features = wrong}),
      "attention: features must keep every dimension of q but the last, BFloat16[9, 16] on cpu, got BFloat16[9]");
}

TEST(Attention, FollowsAutocast) {
  const MaskPtr mask = series_mask(Graph::path(9), at::kFloat);
  const at::Tensor x = at::rand({9, 16});
  for (const Route route : {Route::dense, Route::sparse, Route::features, Route::operator_}) {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    const at::Tensor out = attention(x, x, x, mask, {.route = route});
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::clear_cache();
    EXPECT_EQ(out.scalar_type(), at::kBFloat16);
    // It settles the dtype of q, k, v and nothing inside.
    const at::Tensor narrow = x.to(at::kBFloat16);
    EXPECT_TRUE(close(out, attention(narrow, narrow, narrow, mask, {.route = route}), 0)) << to_string(route);
  }
}

TEST(Attention, SaysWhatIsWrong) {
  const MaskPtr mask = neighbours_mask(Graph::path(4));
  const at::Tensor x = at::rand({4, 3});
  EXPECT_ERROR(attention(x, x, x, nullptr), "attention: mask must be given, got none");
  EXPECT_ERROR(attention(at::rand({5, 3}), x, x, mask), "attention: q must be [..., N = 4, C], got Float[5, 3]");
  EXPECT_ERROR(attention(x, at::rand({4, 2}), x, mask),
               "attention: k must be like q, Float[4, 3] on cpu, got Float[4, 2]");
  EXPECT_ERROR(attention(x, x, at::rand({2, 4, 3}), mask), "attention: v must be like q");
  EXPECT_ERROR(attention(x, x.to(at::kDouble), x, mask), "attention: k must be like q");
  EXPECT_ERROR(attention(x.to(at::kLong), x, x, mask),
               "attention: q must be float64, float32 or bfloat16 on cpu, got Long[4, 3] on cpu");
  EXPECT_ERROR(attention(x.to(at::kHalf), x.to(at::kHalf), x.to(at::kHalf), mask),
               "attention: q must be float64, float32 or bfloat16 on cpu, got Half[4, 3] on cpu");
  EXPECT_ERROR(attention(x.to(at::kMeta), x, x, mask), "attention: q must be on cpu or cuda, got Float[4, 3] on meta");
  EXPECT_ERROR(attention(x.to(at::kDouble), x.to(at::kDouble), x.to(at::kDouble), mask),
               "attention: mask must be Double where q is Double, got Float; mask->to(dtype) converts it");
  EXPECT_ERROR(attention(x, x, x, mask, {.eps = 0}), "attention: eps must be > 0, got 0");
  EXPECT_ERROR(attention(x, x, x, causal_mask(4), {.route = Route::sparse}), "got sparse for mask causal");
  EXPECT_ERROR(attention(x, x, x, causal_mask(4), {.route = Route::features}), "got features for mask causal");
  EXPECT_ERROR(attention(x, x, x, mask, {.memory_budget = 1}),
               "attention: memory_budget must allow one route, got 1 bytes");
  EXPECT_ERROR(softmax_attention(x, x, x, mask, {.route = Route::features}),
               "route must be automatic, fused, dense, strips or sparse, got features");
  EXPECT_ERROR(softmax_attention(x, x, x, mask, {.mask = SoftmaxMask::additive, .route = Route::sparse}),
               "route must be fused, strips or dense for an additive mask");
  EXPECT_ERROR(softmax_attention(x, x, x, causal_mask(4), {.route = Route::sparse}), "got sparse for mask causal");
  EXPECT_ERROR(softmax_attention(x, x, x, none_mask(4), {.memory_budget = 1}), "memory_budget must allow one route");
}

}  // namespace
}  // namespace topomask

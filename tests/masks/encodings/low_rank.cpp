// Centrality, stochastic positions and free features: masks of dense factors.

#include <ATen/CPUGeneratorImpl.h>

#include <numbers>

#include "masks/empty_mask.h"
#include "support/mask_contract.h"
#include "topomask/attention.h"
#include "topomask/encodings.h"

namespace topomask {
namespace {

using testing::close;
using testing::expect_mask_is;
using testing::normal;

at::Tensor leaf(const at::Tensor& values) {
  return values.clone().requires_grad_();
}

/// sin(π/4(z_i + z_j)), the table read at clamped degrees.
at::Tensor centrality(const Graph& graph, const at::Tensor& z) {
  const at::Tensor at_nodes = z.index_select(-1, graph.degrees().clamp_max(z.size(-1) - 1));
  return at::sin((at_nodes.unsqueeze(-1) + at_nodes.unsqueeze(-2)) * (std::numbers::pi / 4));
}

TEST(Centrality, IsItsFormula) {
  const Graph graph = Graph::erdos_renyi(29, 0.1, 4);
  const at::Tensor z = leaf(at::linspace(0.1, 0.9, graph.max_degree() + 1, at::kDouble));
  expect_mask_is(centrality_mask(graph, z), centrality(graph, z));
}

TEST(Centrality, TakesLogitsAndATablePerHead) {
  const Graph graph = Graph::star(11);
  const at::Tensor logits = leaf(normal({3, 4}, 1));  // the centre's degree is 10: it shares the last value
  expect_mask_is(centrality_mask(graph, logits, {.logits = true}), centrality(graph, logits.sigmoid()));
  const at::Tensor single = leaf(normal({1, 2}, 2));
  expect_mask_is(centrality_mask(graph, single, {.logits = true}), centrality(graph, single[0].sigmoid()));
}

/// Nearly all nodes share a value of z and all have the same x: an error of a sum over the nodes is in each part of the
/// gradient of that value.
TEST(Centrality, GradientIsAccurateWhereNodesAreAlike) {
  constexpr int64_t kNodes = 3001, kHeads = 8;
  const at::Tensor logits = normal({kHeads, 2}, 1).to(at::kFloat),
                   x = normal({kHeads, 1, 3}, 2).to(at::kFloat).expand({kHeads, kNodes, 3}),
                   g = normal({kHeads, kNodes, 3}, 3).to(at::kFloat);
  const auto gradient = [&](at::ScalarType dtype) {
    const at::Tensor z = leaf(logits.to(dtype));
    const auto mask = centrality_mask(Graph::star(kNodes), z, {.logits = true});
    mask->matmul(x.to(dtype)).backward(g.to(dtype));
    return z.grad().to(at::kDouble);
  };
  const at::Tensor want = gradient(at::kDouble), off = gradient(at::kFloat) - want;
  EXPECT_LT(off.abs().max().item<double>(), 3e-6 * want.abs().max().item<double>());
}

TEST(Centrality, WorksOnNoNodeAndOne) {
  const at::Tensor z = leaf(at::full({1}, 0.3, at::kDouble));
  testing::expect_empty(centrality_mask(Graph::path(0), z));
  expect_mask_is(centrality_mask(Graph::path(1), z), centrality(Graph::path(1), z));
}

TEST(Centrality, RefusesBadTables) {
  const Graph graph = Graph::path(4);
  EXPECT_ERROR(centrality_mask(graph, at::full({3}, 1.5)), "centrality_mask: z must be in [0, 1], or logits, got 1.5");
  EXPECT_ERROR(centrality_mask(graph, at::full({3}, NAN), {.logits = true}),
               "centrality_mask: z must be finite, got nan at 0");
  EXPECT_ERROR(centrality_mask(graph, at::ones({3}, at::kLong)),
               "centrality_mask: z must be Float or Double, [K] or [H, K], got Long[3]");
  EXPECT_ERROR(centrality_mask(graph, at::ones({0, 3})), "z must be Float or Double, [K] or [H, K]");
  EXPECT_ERROR(centrality_mask(graph, at::ones({2, 0})), "z must have 1 to 32768 values, got Float[2, 0]");
}

/// Σ_k a_k² cos(ω_k(i − j) + θ_k).
at::Tensor stationary(int64_t nodes, const at::Tensor& frequencies, const at::Tensor& amplitudes,
                      const at::Tensor& phases = {}) {
  const at::Tensor i = at::arange(nodes, at::kDouble);
  const at::Tensor offsets = (i.unsqueeze(1) - i).unsqueeze(-1);  // [N, N, 1]
  const auto broadcast = [](const at::Tensor& row) { return row.unsqueeze(-2).unsqueeze(-2); };
  at::Tensor angle = offsets * broadcast(frequencies);
  if (phases.defined()) angle = angle + broadcast(phases);
  return (angle.cos() * broadcast(amplitudes).square()).sum(-1);
}

/// The mask with the noise that the header promises.
at::Tensor with_noise(int64_t nodes, const at::Tensor& frequencies, const at::Tensor& amplitudes,
                      const at::Tensor& phases, int64_t realisations, uint64_t seed) {
  std::vector<int64_t> shape = frequencies.sizes().vec();
  shape.back() *= 2;
  shape.push_back(realisations);
  const at::Tensor z = at::randn(shape, at::detail::createCPUGenerator(seed), at::dtype(at::kDouble));
  const at::Tensor positions = at::arange(nodes, at::kDouble).unsqueeze(-1);
  const auto side = [&](const at::Tensor& shift) {
    const at::Tensor angle = positions * frequencies.unsqueeze(-2) + shift.unsqueeze(-2);
    const at::Tensor waves = at::cat({angle.cos(), angle.sin()}, -1);
    return at::matmul(waves * at::cat({amplitudes, amplitudes}, -1).unsqueeze(-2), z);
  };
  return at::matmul(side(phases), side(at::zeros_like(phases)).mT()) / static_cast<double>(realisations);
}

TEST(StochasticPositions, WithoutNoiseIsTheStationaryKernel) {
  const at::Tensor frequencies = leaf(normal({3}, 1)), amplitudes = leaf(normal({3}, 2)), phases = leaf(normal({3}, 3));
  const StochasticPositionalOptions exact{.realisations = 0};
  expect_mask_is(stochastic_positional_mask(17, frequencies, amplitudes, {}, exact),
                 stationary(17, frequencies, amplitudes));
  expect_mask_is(stochastic_positional_mask(17, frequencies, amplitudes, phases, exact),
                 stationary(17, frequencies, amplitudes, phases));
}

TEST(StochasticPositions, WithNoiseIsItsFormulaForEveryHead) {
  const at::Tensor frequencies = leaf(normal({2, 3}, 1)), amplitudes = leaf(normal({2, 3}, 2));
  const at::Tensor phases = leaf(normal({2, 3}, 3));
  expect_mask_is(stochastic_positional_mask(13, frequencies, amplitudes, phases, {.realisations = 5, .seed = 9}),
                 with_noise(13, frequencies, amplitudes, phases, 5, 9));
  expect_mask_is(stochastic_positional_mask(13, frequencies, amplitudes, {}, {.realisations = 5, .seed = 9}),
                 with_noise(13, frequencies, amplitudes, at::zeros_like(phases), 5, 9));
}

TEST(StochasticPositions, AreUnbiasedAndTheirVarianceFallsAsOneOverRealisations) {
  const at::Tensor frequencies = normal({4}, 5), amplitudes = normal({4}, 6), phases = normal({4}, 7);
  const at::Tensor expected = stationary(11, frequencies, amplitudes, phases);
  constexpr int64_t kDraws = 400;
  const auto draws = [&](int64_t realisations) {
    std::vector<at::Tensor> all;
    for (uint64_t seed = 0; seed < kDraws; ++seed) {
      all.push_back(
          stochastic_positional_mask(11, frequencies, amplitudes, phases, {.realisations = realisations, .seed = seed})
              ->dense());
    }
    return at::stack(all);
  };
  const at::Tensor few = draws(4), many = draws(16);
  const at::Tensor error = few.std(0) / std::sqrt(static_cast<double>(kDraws));
  EXPECT_LT(((few.mean(0) - expected) / error).abs().max().item<double>(), 5);
  EXPECT_NEAR((few.var(0).mean() / many.var(0).mean()).item<double>(), 4, 0.6);
}

TEST(StochasticPositions, KeepLatePositionsApartInSinglePrecision) {
  constexpr int64_t kNodes = 200'000;
  const at::Tensor frequencies = at::full({1}, 3.0), amplitudes = at::ones({1});
  const auto factors = stochastic_positional_mask(kNodes, frequencies, amplitudes, {}, {.realisations = 0})->factors();
  const at::Tensor last = factors->left.dense[kNodes - 1];
  EXPECT_NEAR(last[0].item<float>(), std::cos(3.0 * (kNodes - 1)), 1e-6);
}

TEST(StochasticPositions, WorkOnNoPositionAndOne) {
  const at::Tensor frequencies = leaf(normal({2}, 1)), amplitudes = leaf(normal({2}, 2));
  testing::expect_empty(stochastic_positional_mask(0, frequencies, amplitudes));
  expect_mask_is(stochastic_positional_mask(1, frequencies, amplitudes, {}, {.realisations = 0}),
                 stationary(1, frequencies, amplitudes));
}

TEST(StochasticPositions, RefuseBadArguments) {
  const at::Tensor good = at::ones({3});
  EXPECT_ERROR(stochastic_positional_mask(-1, good, good),
               "stochastic_positional_mask: nodes must be in [0, 2^31-1], got -1");
  EXPECT_ERROR(stochastic_positional_mask(5, good[0], good), "frequencies must be Float or Double, [K] or [H, K]");
  EXPECT_ERROR(stochastic_positional_mask(5, good, good.to(at::kDouble)),
               "amplitudes must be like frequencies, Float[3] on cpu, got Double[3] on cpu");
  EXPECT_ERROR(stochastic_positional_mask(5, good, good, at::ones({4})), "phases must be like frequencies");
  EXPECT_ERROR(stochastic_positional_mask(5, good, good * NAN), "amplitudes must be finite");
  EXPECT_ERROR(stochastic_positional_mask(5, good, good, {}, {.realisations = -1}),
               "realisations must be >= 0, got -1");
}

TEST(FreeFeatures, AreTheProductOfTheirParameters) {
  const at::Tensor phi = leaf(normal({19, 3}, 1)), other = leaf(normal({19, 3}, 2));
  expect_mask_is(free_features_mask(phi), at::matmul(phi, phi.mT()));
  expect_mask_is(free_features_mask(phi, other), at::matmul(phi, other.mT()));
  EXPECT_EQ(free_features_mask(phi, phi)->parameters().size(), 1u);
}

TEST(FreeFeatures, MayDifferPerHead) {
  for (const int64_t heads : {1, 2}) {
    const at::Tensor phi = leaf(normal({heads, 7, 3}, 1)), other = leaf(normal({heads, 3, 7}, 2).mT());
    const at::Tensor m = at::matmul(phi, other.mT());
    expect_mask_is(free_features_mask(phi, other), heads == 1 ? m[0] : m);
  }
}

TEST(FreeFeatures, WorkOnNoNodeAndOneAndWithoutFeatures) {
  testing::expect_empty(free_features_mask(leaf(normal({0, 3}, 1))));
  for (const auto& shape : std::vector<std::vector<int64_t>>{{1, 3}, {4, 0}}) {
    const at::Tensor phi = leaf(normal(shape, 1));
    expect_mask_is(free_features_mask(phi), at::matmul(phi, phi.mT()));
  }
}

TEST(FreeFeatures, RefuseBadArguments) {
  const at::Tensor good = at::ones({5, 2});
  EXPECT_ERROR(free_features_mask(good[0]),
               "free_features_mask: left must be Float or Double, [N, r] or [H, N, r], got Float[2]");
  EXPECT_ERROR(free_features_mask(at::full({5, 2}, INFINITY)), "left must be finite");
  EXPECT_ERROR(free_features_mask(good, at::full({5, 2}, INFINITY)), "right must be finite");
  EXPECT_ERROR(free_features_mask(good, at::ones({5, 3})),
               "right must be like left, Float[5, 2] on cpu, got Float[5, 3] on cpu");
}

TEST(LowRankEncodings, AttendByTheirFactorsAndConvert) {
  const at::Tensor z = at::rand({4}).requires_grad_();
  const MaskPtr mask = centrality_mask(Graph::grid({64, 64}), z);
  EXPECT_EQ(mask->counts().factor_entries, 4 * 4096);
  const at::Tensor q = at::rand({4096, 16}), v = at::rand({4096, 16});
  EXPECT_EQ(explain(q, q, v, mask).route, Route::features);
  EXPECT_EQ(mask->to(at::kFloat), mask);
  const at::Tensor row = at::rand({3});
  for (const MaskPtr& each :
       {mask, free_features_mask(at::rand({9, 2}), at::rand({9, 2})), stochastic_positional_mask(9, row, row, row),
        stochastic_positional_mask(9, row, row, row, {.realisations = 0})}) {
    EXPECT_EQ(each->to(at::kDouble)->dtype(), at::kDouble);
    EXPECT_TRUE(close(each->to(at::kDouble)->dense(), each->dense(), 1e-5)) << each->name();
  }
}

}  // namespace
}  // namespace topomask

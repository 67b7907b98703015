#include <ATen/core/grad_mode.h>

#include "masks/grf/grf_testing.h"
#include "topomask/attention.h"
#include "topomask/grf.h"

// Gradients in the weights of the graph, through the loads of walks.

namespace topomask {
namespace {

using testing::close;
using testing::dense_features;
using testing::digraph;
using testing::expect_mask_is;
using testing::gradients;
using testing::normal;

Graph learnable(const Graph& graph) {
  return graph.with_weights(graph.weights().detach().clone().requires_grad_());
}

std::vector<WalkOptions> samplers() {
  return {{.walkers = 3, .max_hops = 4, .seed = 1},
          {.walkers = 5, .halting_probability = 0.3, .max_hops = 5, .coupling = Coupling::antithetic, .seed = 2},
          {.walkers = 4, .max_hops = 4, .coupling = Coupling::repelling, .seed = 3},
          {.walkers = 200, .fixed_hops = 3, .seed = 4},
          {.walkers = 4, .max_hops = 6, .exact_hops = 2, .seed = 5, .first_walker = 8}};
}

/// ∂⟨g, result(w)⟩/∂w by central differences: walks do not depend on w, so that loads are products of its entries.
template <class Result>
at::Tensor differences(const Graph& graph, const at::Tensor& g, const Result& result) {
  constexpr double kStep = 1e-4;
  const at::NoGradGuard no_grad;
  at::Tensor gradient = at::zeros_like(graph.weights());
  for (int64_t e = 0; e < graph.num_entries(); ++e) {
    const auto value = [&](double step) {
      at::Tensor w = graph.weights().clone();
      w[e] += step;
      return (result(graph.with_weights(w)) * g).sum().template item<double>();
    };
    gradient[e] = (value(kStep) - value(-kStep)) / (2 * kStep);
  }
  return gradient;
}

TEST(WalkLoads, HaveTheGradientOfTheirProducts) {
  const Graph graph = learnable(digraph());
  for (const WalkOptions& options : samplers()) {
    const auto loads = [&](const Graph& on) { return sample_walks(on, options).loads(); };
    const at::Tensor sampled = loads(graph), g = normal(sampled.sizes(), 1);
    EXPECT_TRUE(sampled.equal(loads(graph.with_weights(graph.weights().detach()))));
    EXPECT_TRUE(close(gradients(sampled, g, {graph.weights()})[0], differences(graph, g, loads), 1e-6));
  }
}

TEST(WalkLoads, HaveAGradientAtZeroWeights) {
  const Graph graph = digraph();
  at::Tensor w = graph.weights().clone();
  w[1] = 0;
  w[6] = 0;
  const Graph zeros = graph.with_weights(w.requires_grad_());
  const auto loads = [](const Graph& on) { return sample_walks(on, {.walkers = 50, .max_hops = 5}).loads(); };
  const at::Tensor sampled = loads(zeros), g = normal(sampled.sizes(), 1);
  EXPECT_TRUE(close(gradients(sampled, g, {w})[0], differences(zeros, g, loads), 1e-6));
}

/// What masks make of loads, by every route and form; the loads are parameters as well as f.
TEST(WalkLoads, AreParametersOfMasks) {
  const Graph graph = learnable(digraph());
  const WalkTable walks = sample_walks(graph, {.walkers = 6, .max_hops = 3, .seed = 1}),
                  keys = sample_walks(graph.reversed(), {.walkers = 6, .max_hops = 3, .seed = 2});
  for (const at::Tensor& f : {normal({3}, 1).abs().requires_grad_(), normal({2, 4}, 2).abs().requires_grad_()}) {
    const at::Tensor left = dense_features(walks, f), right = dense_features(keys, f);
    const auto expect = [&](const MaskPtr& mask, const at::Tensor& reference, size_t parameters) {
      EXPECT_EQ(mask->parameters().size(), parameters);
      expect_mask_is(mask, reference, 1e-9);
    };
    expect(asymmetric_grf_mask(walks, f), left, 2);
    expect(grf_mask(walks, f), at::matmul(left, left.mT()), 2);
    expect(grf_mask(walks, keys, f), at::matmul(left, right.mT()), 3);
    const WalkTable more = sample_walks(graph, {.walkers = 4, .max_hops = 3, .seed = 3}),
                    constant = sample_walks(digraph(), {.walkers = 4, .max_hops = 3, .seed = 4});
    const at::Tensor behind = at::matmul(dense_features(more, f), dense_features(constant, f).mT());
    expect(stitched_grf_mask({walks, keys, more, constant}, f), at::matmul(at::matmul(left, right.mT()), behind), 4);
  }
}

TEST(WalkLoads, CarryGradientsFromAttentionToTheWeights) {
  const Graph graph = learnable(digraph());
  const at::Tensor f = normal({4}, 3).abs().requires_grad_();
  const at::Tensor q = normal({8, 3}, 4).abs(), k = normal({8, 3}, 5).abs(), v = normal({8, 2}, 6),
                   g = normal({8, 2}, 7);
  const std::vector<std::function<MaskPtr(const Graph&)>> masks{
      [&](const Graph& on) { return asymmetric_grf_mask(sample_walks(on, {.walkers = 8, .max_hops = 3}), f); },
      [&](const Graph& on) { return grf_mask(sample_walks(on, {.walkers = 8, .max_hops = 3}), f); },
      [&](const Graph& on) {
        return projected_mask(grf_mask(sample_walks(on, {.walkers = 8, .max_hops = 3}), f), {.width = 64});
      }};
  for (const auto& make : masks) {
    for (const Route route : {Route::dense, Route::operator_, Route::sparse, Route::features}) {
      if (route == Route::sparse && !make(graph)->sparse()) continue;
      const auto out = [&](const Graph& on) {
        return attention(q, k, v, make(on), {.features = FeatureMap::identity(), .route = route});
      };
      EXPECT_TRUE(close(gradients(out(graph), g, {graph.weights()})[0], differences(graph, g, out), 1e-5))
          << make(graph)->name() << " " << to_string(route);
    }
  }
}

TEST(WalkLoads, NoticeWeightsChangedBeforeTheBackwardPass) {
  const Graph graph = learnable(digraph());
  const at::Tensor loads = sample_walks(graph, {.max_hops = 3}).loads();
  {
    const at::NoGradGuard no_grad;
    at::Tensor w = graph.weights();
    w.mul_(2);
  }
  EXPECT_ERROR(gradients(loads, at::ones_like(loads), {graph.weights()}), "modified by an inplace operation");
}

TEST(WalkLoads, AreConstantsWithoutGradMode) {
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(sample_walks(learnable(digraph()), {.max_hops = 3}).loads().requires_grad());
}

}  // namespace
}  // namespace topomask

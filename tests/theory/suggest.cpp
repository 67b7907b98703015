#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <sstream>

#include "support/compare.h"
#include "topomask/attention.h"
#include "topomask/coefficients.h"
#include "topomask/power_series.h"
#include "topomask/theory.h"

namespace topomask {
namespace {

double relative(const MaskPtr& mask, const MaskPtr& exact) {
  return ((mask->dense() - exact->dense()).norm() / exact->dense().norm()).item<double>();
}

TEST(Suggest, MeetsItsTolerance) {
  const at::Tensor f = at::pow(0.5, at::arange(8)).to(at::kFloat);
  const at::Tensor points = at::rand({200, 2}, at::detail::createCPUGenerator(4), at::dtype(at::kFloat));
  for (const Graph& base :
       {Graph::grid({16, 16}), Graph::erdos_renyi(200, 0.1, 2), Graph::knn(points, {.k = 4, .directed = true})}) {
    const Graph graph = base.normalised();
    const MaskPtr exact = power_series_mask(graph, convolve(f, 2, 15));
    const Suggestion s = suggest(graph, f, 0.2);
    EXPECT_LE(relative(power_series_mask(graph, convolve(f, 2, 15).narrow(0, 0, s.terms)), exact), 0.2 * 1.1);
    EXPECT_LE(s.exact.error, 0.2);
    if (!s.walks) continue;
    EXPECT_LE(s.sampled.error, 0.2);
    // Another seed: the number of walkers was not lucky.
    WalkOptions walks = *s.walks;
    walks.seed = 99;
    ASSERT_EQ(s.estimator, Estimator::one_sided) << s;
    const WalkTable table = sample_walks(graph, walks);
    const at::Tensor alpha = convolve(f, 2, walks.max_hops + 1);
    EXPECT_LE(relative(asymmetric_grf_mask(walks.exact_hops > 0 ? with_exact_head(table, graph) : table, alpha), exact),
              0.2 * 1.15);
  }
}

TEST(Suggest, KeepsToSymmetricMasksWhereAsked) {
  const at::Tensor f = at::pow(0.5, at::arange(8)).to(at::kFloat);
  const Graph graph = Graph::erdos_renyi(200, 0.1, 2).normalised();
  const Suggestion s = suggest(graph, f, 0.2, {.one_sided = false});
  ASSERT_TRUE(s.walks);
  EXPECT_EQ(s.estimator, Estimator::symmetric);
  WalkOptions walks = *s.walks;
  walks.seed = 99;
  const at::Tensor cut = f.narrow(0, 0, walks.max_hops + 1);
  EXPECT_LE(relative(grf_mask(sample_walks(graph, walks), cut, {.diagonal = Diagonal::debiased}),
                     power_series_mask(graph, convolve(f, 2, 15))),
            0.2 * 1.15);
}

/// A grid whose nodes all know one hub: two hops reach everything, three hops exactly are a dense matrix.
Graph grid_with_hub(int64_t side) {
  const Graph grid = Graph::grid({side, side});
  const int64_t nodes = grid.num_nodes();
  const at::Tensor rows = at::repeat_interleave(at::arange(nodes), grid.degrees());
  return Graph::from_edges(nodes + 1, at::cat({rows, at::arange(nodes)}),
                           at::cat({grid.columns().to(at::kLong), at::full({nodes}, nodes, at::kLong)}));
}

TEST(Suggest, PrefersTheExactSeriesOnAGridAndWalksBesideAHub) {
  const at::Tensor f = at::pow(0.5, at::arange(8)).to(at::kFloat);
  EXPECT_TRUE(suggest(Graph::grid({40, 40}).normalised(), f, 0.1).use_exact);
  const Suggestion hub = suggest(grid_with_hub(48).normalised(), f, 0.15);
  EXPECT_FALSE(hub.use_exact) << hub;
}

TEST(Suggest, GivesTheSameAnswerForTheSameSeed) {
  const Graph graph = Graph::grid({12, 12}).normalised(0.9);
  const at::Tensor f = diffusion_coefficients(8).to(at::kFloat);
  std::ostringstream a, b;
  a << suggest(graph, f, 0.2);
  b << suggest(graph, f, 0.2);
  EXPECT_EQ(a.str(), b.str());
  EXPECT_NE(a.str().find("for a relative error of 0.2:\n  exact series  "), std::string::npos) << a.str();
  EXPECT_NE(a.str().find("p_halt"), std::string::npos) << a.str();
}

TEST(Suggest, SendsHopelessCasesToTheExactSeries) {
  const Graph graph = Graph::grid({12, 12}).normalised(0.9);
  const Suggestion s = suggest(graph, diffusion_coefficients(8).to(at::kFloat), 1e-3, {.max_walkers = 16});
  EXPECT_TRUE(s.use_exact && !s.walks);
  EXPECT_EQ(s.reason, "no walks within 16 walkers meet the tolerance");
  EXPECT_LE(s.exact.error, 1e-3);
}

TEST(Suggest, TakesGraphsWithoutEdgesOrNodes) {
  for (int64_t nodes : {0, 1}) {
    const Suggestion s = suggest(Graph::path(nodes), at::ones({4}), 0.1);
    EXPECT_EQ(s.terms, 1);
    EXPECT_EQ(s.exact.error, 0);
  }
}

TEST(Suggest, SaysWhatIsWrong) {
  const Graph graph = Graph::path(3);
  EXPECT_ERROR(suggest(graph, at::ones({2}, at::kDouble), 0.1),
               "suggest: f must be Float [K] as the graph's weights are, K >= 1, got Double[2]");
  EXPECT_ERROR(suggest(graph, at::ones({0}), 0.1), "K >= 1, got Float[0]");
  EXPECT_ERROR(suggest(graph, at::ones({2}), 0), "suggest: tolerance must be in (0, 1), got 0");
  EXPECT_ERROR(suggest(graph, at::ones({2}), 2), "suggest: tolerance must be in (0, 1), got 2");
  EXPECT_ERROR(suggest(graph, at::ones({2}), 0.1, {.nodes = 0}), "suggest: nodes must be >= 1, got 0");
  EXPECT_ERROR(suggest(graph, at::ones({2}), 0.1, {.max_walkers = 2}), "suggest: max_walkers must be >= 4, got 2");
}

TEST(AutoMask, TakesTheExactSeriesOnAGridAndWalksBesideAHub) {
  const at::Tensor alpha = convolve(at::pow(0.5, at::arange(8)).to(at::kFloat), 2, 15);
  const auto check = [&](const Graph& graph, double tolerance, const char* start) {
    const MaskPtr mask = auto_mask(graph, alpha, tolerance);
    EXPECT_TRUE(mask->name().starts_with(start)) << mask->name();
    EXPECT_LE(relative(mask, power_series_mask(graph, alpha)), tolerance * 1.15);
  };
  check(Graph::grid({24, 24}).normalised(), 0.02, "auto (exact series, ");
  check(grid_with_hub(48).normalised(), 0.15, "auto (walks, one_sided, ");
}

TEST(AutoMask, IsAMaskThatFollowsItsCoefficients) {
  const Graph graph = Graph::path(9).normalised(0.9).to(at::kDouble);
  for (const double tolerance : {1e-9, 0.3}) {
    const at::Tensor alpha = at::pow(0.5, at::arange(6)).to(at::kDouble).requires_grad_();
    const MaskPtr mask = auto_mask(graph, alpha, tolerance);
    const at::Tensor x = at::rand({9, 3}, at::kDouble);
    for (int step = 0; step < 2; ++step) {  // more than one backward pass, and a change in between
      mask->matmul(x).sum().backward();
      at::NoGradGuard no_grad;
      alpha.mul_(0.5);
    }
    EXPECT_TRUE(alpha.grad().defined());
    const at::Tensor before = mask->dense().detach();
    {
      at::NoGradGuard no_grad;
      alpha.mul_(2);
    }
    EXPECT_TRUE(at::allclose(mask->dense(), 2 * before));
  }
}

TEST(AutoMask, TellsExplainWhatItIsAndWhy) {
  const Graph graph = Graph::grid({16, 16}).normalised(0.9);
  const MaskPtr mask = auto_mask(graph, diffusion_coefficients(8).to(at::kFloat), 0.05);
  const at::Tensor x = at::rand({256, 8});
  std::ostringstream text;
  text << explain(x, x, x, mask);
  for (const char* words : {"mask auto (exact series, ", " terms; relative error ", ", 0.05 allowed; walks take "}) {
    EXPECT_NE(text.str().find(words), std::string::npos) << words << " in\n" << text.str();
  }
}

TEST(AutoMask, TakesGraphsWithoutEdgesOrNodes) {
  for (int64_t nodes : {0, 1}) EXPECT_EQ(auto_mask(Graph::path(nodes), at::ones({4}), 0.1)->size(), nodes);
}

TEST(AutoMask, SaysWhatIsWrong) {
  const Graph graph = Graph::path(3);
  EXPECT_ERROR(auto_mask(graph, at::ones({2, 2}), 0.1),
               "auto_mask: alpha must be Float [K] as the graph's weights are, K >= 1, got Float[2, 2]");
  EXPECT_ERROR(auto_mask(graph, at::ones({2}), -1), "auto_mask: tolerance must be in (0, 1), got -1");
  EXPECT_ERROR(auto_mask(graph, at::ones({2}), 0.1, {.nodes = 0}), "auto_mask: nodes must be >= 1, got 0");
}

}  // namespace
}  // namespace topomask

// What the estimators promise on average. Many independent trials are one table: a graph of as many copies, since walks
// are keyed by their start node. No seed is chosen: a pooled z statistic may stray by four standard errors.

#include <ATen/core/grad_mode.h>

#include "masks/grf/grf_testing.h"
#include "topomask/coefficients.h"
#include "topomask/grf.h"

namespace topomask {
namespace {

using testing::digraph;
using testing::normal;
using testing::powers;

Graph copies(const Graph& graph, int64_t count) {
  const std::vector<Graph> all(count, graph);
  return GraphBatch(all).graph();
}

/// The diagonal blocks of a block-diagonal mask: [trials, N, N].
at::Tensor trials(const MaskPtr& mask, int64_t nodes) {
  const SparseMatrix m = *mask->sparse();
  const at::Tensor rows = at::repeat_interleave(at::arange(mask->size()), m.pattern->offsets().diff());
  const at::Tensor columns = m.pattern->columns().to(at::kLong);
  const at::Tensor place = rows * nodes + columns.remainder(nodes);
  return at::zeros({mask->size() * nodes}, m.values.options()).index_copy(0, place, m.values).view({-1, nodes, nodes});
}

/// Standard errors by which the mean over trials of a sum of entries strays from its expectation.
double stray(const at::Tensor& errors, const at::Tensor& weights) {
  const at::Tensor sums = (errors * weights).sum(at::IntArrayRef{1, 2});
  const double mean = sums.mean().item<double>(), deviation = sums.std().item<double>();
  return std::abs(mean) / std::max(deviation / std::sqrt(static_cast<double>(sums.size(0))), 1e-12);
}

void expect_unbiased(const at::Tensor& estimates, const at::Tensor& exact, bool diagonal, const std::string& what) {
  const int64_t n = exact.size(0);
  const at::Tensor errors = estimates - exact, eye = at::eye(n, at::kDouble), signs = normal({n, n}, 3).sign();
  for (const at::Tensor& weights : {at::ones({n, n}, at::kDouble), signs}) {
    EXPECT_LT(stray(errors, weights * (1 - eye)), 4) << what << ", off the diagonal";
    if (!diagonal) continue;
    EXPECT_LT(stray(errors, weights * eye), 4) << what << ", on the diagonal";
  }
}

struct Named {
  std::string name;
  Graph graph;
};

std::vector<Named> graphs_of_trials() {
  const at::Tensor parent = at::tensor({-1, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6}, at::kLong);
  std::vector<Named> all{{"path", Graph::path(7)},
                         {"grid", Graph::grid({3, 4})},
                         {"tree", Graph::forest(parent)},
                         {"ER", Graph::erdos_renyi(14, 0.25, 3)},
                         {"star", Graph::star(8)}};
  for (Named& named : all) named.graph = named.graph.to(at::kDouble).normalised(0.8);
  all.push_back({"digraph", digraph()});
  return all;
}

struct Sampler {
  std::string name;
  WalkOptions options;
};

std::vector<Sampler> samplers_of_trials() {
  const at::Tensor survival = at::tensor({1., .9, .7, .4, .2, .1}, at::kDouble);
  std::vector<Sampler> all{
      {"iid", {.walkers = 4}},
      {"fixed hops", {.walkers = 4, .fixed_hops = 5}},
      {"given lengths", {.walkers = 4, .survival = survival}},
      {"antithetic", {.walkers = 4, .coupling = Coupling::antithetic}},
      {"repelling", {.walkers = 4, .coupling = Coupling::repelling, .ensemble = 2}},
      {"both", {.walkers = 4, .coupling = Coupling::antithetic_repelling, .ensemble = 2}},
      {"by weight", {.walkers = 4, .proposal = Proposal::weights}},
  };
  for (Sampler& sampler : all) {
    sampler.options.max_hops = 5;
    sampler.options.halting_probability = 0.3;
    sampler.options.group_products = true;
  }
  return all;
}

/// `tables` seeds with `count` trials each: samplers share random numbers, so that one odd seed would show in many of
/// them.
void expect_no_bias(uint64_t tables, int64_t count) {
  const at::Tensor f = at::tensor({1., .6, .3, .2, .1, .05}, at::kDouble), short_f = f.narrow(0, 0, 4);
  for (const auto& [graph_name, graph] : graphs_of_trials()) {
    const int64_t nodes = graph.num_nodes();
    const at::Tensor hops = powers(graph, 5), back_hops = powers(graph.reversed(), 5);
    const at::Tensor phi = testing::combine(f, hops), square = at::matmul(phi, phi.mT());
    const at::Tensor mixed = at::matmul(phi, testing::combine(f, back_hops).mT());
    const at::Tensor pair = at::matmul(testing::combine(short_f, hops), testing::combine(short_f, back_hops).mT());
    const Graph many = copies(graph, count), back = copies(graph.reversed(), count);
    for (const Sampler& sampler : samplers_of_trials()) {
      const auto walk = [&](uint64_t seed, const Graph& on, int64_t exact_hops = 0) {
        WalkOptions options = sampler.options;
        options.exact_hops = exact_hops;
        options.seed = seed;
        return sample_walks(on, options);
      };
      const auto expect = [&](const char* estimator, const at::Tensor& exact, bool diagonal, const auto& mask) {
        std::vector<at::Tensor> all;
        for (uint64_t t = 0; t < tables; ++t) all.push_back(trials(mask(10 * t), nodes));
        expect_unbiased(at::cat(all), exact, diagonal,
                        std::string(estimator) + ", " + sampler.name + " on a " + graph_name);
      };
      expect("shared", square, false, [&](uint64_t s) { return grf_mask(walk(s, many), f); });
      expect("debiased", square, true,
             [&](uint64_t s) { return grf_mask(walk(s, many), f, {.diagonal = Diagonal::debiased}); });
      expect("independent", mixed, true, [&](uint64_t s) { return grf_mask(walk(s, many), walk(s + 1, back), f); });
      expect("asymmetric", phi, true, [&](uint64_t s) { return asymmetric_grf_mask(walk(s, many), f); });
      expect("stitched", at::matmul(pair, pair), true, [&](uint64_t s) {
        return stitched_grf_mask({walk(s, many), walk(s + 1, back), walk(s + 2, many), walk(s + 3, back)}, short_f);
      });
      if (sampler.options.fixed_hops || sampler.options.survival.defined()) continue;
      expect("hybrid", square, true, [&](uint64_t s) {
        return hybrid_grf_mask(walk(s + 4, many, 2), many, f, {.diagonal = Diagonal::debiased});
      });
    }
  }
}

TEST(GrfStatistics, EveryEstimatorAndSamplerIsUnbiased) {
  expect_no_bias(1, 200);
}

TEST(GrfStatisticsSlow, EveryEstimatorAndSamplerIsUnbiasedInManyTrials) {
  expect_no_bias(6, 1000);
}

TEST(GrfStatistics, ASharedDiagonalIsTooLargeAndADebiasedOneIsNot) {
  const Graph grid = Graph::grid({32, 32}).to(at::kDouble).normalised();
  const at::Tensor f = at::pow(0.5, at::arange(21, at::kDouble));
  const at::Tensor phi = testing::combine(f, powers(grid, 20)), exact = phi.square().sum(-1);
  const Graph many = copies(grid, 8);
  const WalkTable walks = sample_walks(many, {.max_hops = 20, .group_products = true, .seed = 5});
  const auto ratio = [&](const GrfOptions& options) {
    const SparseMatrix m = *grf_mask(walks, f, options)->sparse();
    const at::Tensor rows = at::repeat_interleave(at::arange(many.num_nodes()), m.pattern->offsets().diff());
    const at::Tensor diagonal = m.values.masked_select(rows == m.pattern->columns());
    return (diagonal.view({8, -1}).mean(0) / exact).mean().item<double>();
  };
  EXPECT_NEAR(ratio({}), 1.21, 0.03);
  EXPECT_NEAR(ratio({.diagonal = Diagonal::debiased}), 1.0, 0.03);
}

/// Mean over trials of ‖M̂ − M‖² / ‖M‖².
double relative_error(const MaskPtr& mask, const at::Tensor& exact) {
  const at::Tensor errors = (trials(mask, exact.size(0)) - exact).square().sum(at::IntArrayRef{1, 2});
  return (errors.mean() / exact.square().sum()).item<double>();
}

/// The exponent of n in the squared error of an estimator over doubling numbers of walkers.
double slope(const Graph& graph, const WalkOptions& base, int64_t count) {
  const at::Tensor f = diffusion_coefficients(9, 2.0), exact = testing::combine(f, powers(graph, 8));
  const Graph many = copies(graph, count);
  std::vector<double> x, y;
  for (int64_t n : {4, 8, 16, 32}) {
    WalkOptions options = base;
    options.walkers = n;
    options.max_hops = 8;
    options.seed = static_cast<uint64_t>(n);
    x.push_back(std::log(static_cast<double>(n)));
    y.push_back(std::log(relative_error(asymmetric_grf_mask(sample_walks(many, options), f), exact)));
  }
  double sxy = 0, sxx = 0, mx = 0, my = 0;
  for (size_t i = 0; i < x.size(); ++i) mx += x[i] / 4, my += y[i] / 4;
  for (size_t i = 0; i < x.size(); ++i) sxy += (x[i] - mx) * (y[i] - my), sxx += (x[i] - mx) * (x[i] - mx);
  return sxy / sxx;
}

TEST(GrfStatistics, VarianceFallsWithTheNumberOfWalkers) {
  const Graph grid = Graph::grid({6, 6}).to(at::kDouble).normalised(0.9);
  EXPECT_NEAR(slope(grid, {}, 300), -1, 0.08);
  EXPECT_NEAR(slope(grid, {.coupling = Coupling::antithetic}, 300), -1, 0.08);
  EXPECT_LT(slope(grid, {.coupling = Coupling::repelling}, 300), -1.15);
  EXPECT_LT(slope(grid, {.coupling = Coupling::antithetic_repelling}, 300), -1.25);
}

TEST(GrfStatistics, TwentySevenRepellingWalkersOfThreeHopsAreExact) {
  const at::Tensor points = normal({40, 3}, 2), f = at::tensor({1., -.5, .7, .3}, at::kDouble);
  for (const Graph& graph : {testing::petersen(), Graph::complete(4), Graph::knn(points, {.k = 3, .directed = true})}) {
    const Graph weighted = graph.to(at::kDouble).normalised(0.9);
    const WalkTable walks =
        sample_walks(weighted, {.walkers = 27, .fixed_hops = 3, .coupling = Coupling::repelling, .seed = 9});
    const at::Tensor phi = testing::combine(f, powers(weighted, 3));
    EXPECT_TRUE(testing::close(asymmetric_grf_mask(walks, f)->dense(), phi, 1e-13));
    EXPECT_TRUE(testing::close(grf_mask(walks, f)->dense(), at::matmul(phi, phi.mT()), 1e-13));
  }
}

TEST(GrfStatisticsSlow, SquaredErrorsAreThoseOfTheTable) {
  at::Tensor parent = (at::arange(127, at::kLong) - 1).div(2, "trunc");
  parent[0] = -1;
  struct Row {
    Graph graph;
    double iid, antithetic, repelling, both;
    double tolerance;  // of random graphs, which are not the ones the table was made with, wider
  };
  const std::vector<Row> table{{Graph::grid({10, 10}), .0134, .0111, .0073, .0068, 0.04},
                               {Graph::forest(parent), .0122, .0085, .0065, .0043, 0.04},
                               {Graph::erdos_renyi(100, 0.06, 1), .0144, .0130, .0106, .0105, 0.12},
                               {Graph::erdos_renyi(100, 0.5, 1), .0156, .0155, .0152, .0151, 0.04}};
  const at::Tensor f = diffusion_coefficients(21);
  for (const Row& row : table) {
    const Graph graph = row.graph.to(at::kDouble).normalised(0.25);
    const at::Tensor exact = at::matrix_exp(graph.matrix().dense());
    const Graph many = copies(graph, 1000);
    const auto error = [&](Coupling coupling) {
      return relative_error(grf_mask(sample_walks(many, {.max_hops = 20, .coupling = coupling, .seed = 3}), f), exact);
    };
    EXPECT_NEAR(error(Coupling::independent) / row.iid, 1, row.tolerance);
    EXPECT_NEAR(error(Coupling::antithetic) / row.antithetic, 1, row.tolerance);
    EXPECT_NEAR(error(Coupling::repelling) / row.repelling, 1, row.tolerance);
    EXPECT_NEAR(error(Coupling::antithetic_repelling) / row.both, 1, row.tolerance);
  }
}

TEST(GrfMask, LearnsAPlantedKernel) {
  // The target is the exact mask of a diffusion kernel; f starts as the identity and sees products M·x only.
  const Graph graph = Graph::grid({8, 8}).to(at::kDouble).normalised();
  const at::Tensor planted = diffusion_coefficients(4, 1.5), phi = testing::combine(planted, powers(graph, 3));
  const at::Tensor x = normal({64, 16}, 1), target = at::matmul(at::matmul(phi, phi.mT()), x);
  const WalkTable walks = sample_walks(
      graph, {.walkers = 400, .halting_probability = 0.2, .max_hops = 3, .group_products = true, .seed = 2});
  at::Tensor f = at::tensor({1., 0., 0., 0.}, at::kDouble).requires_grad_();
  const MaskPtr mask = grf_mask(walks, f, {.diagonal = Diagonal::debiased});
  at::Tensor velocity = at::zeros_like(f);
  for (int step = 0; step < 400; ++step) {
    const at::Tensor loss = (mask->matmul(x) - target).square().mean();
    const at::Tensor gradient = torch::autograd::grad({loss}, {f})[0];
    const at::NoGradGuard no_grad;
    velocity.mul_(0.9).add_(gradient);
    f.sub_(velocity, 0.005);
  }
  EXPECT_TRUE(testing::close(f, planted, 0.05)) << f << planted;
}

}  // namespace
}  // namespace topomask

#include <cmath>

#include "walks/helpers.h"

// E[R_t] = W^t for every sampler, held against the spread of independent tables.

namespace topomask::testing {
namespace {

constexpr int64_t kTables = 250;
constexpr int64_t kTerms = 5;

struct Named {
  const char* name;
  Graph graph;
};

std::vector<Named> graphs() {
  return {{"path", Graph::path(6).to(at::kDouble).normalised(.9)},
          {"grid", Graph::grid({3, 4}).to(at::kDouble).normalised(.8)},
          {"tree", binary_tree(15).to(at::kDouble).normalised(.9)},
          {"er", Graph::erdos_renyi(14, .25, 3).to(at::kDouble).normalised(1)},
          {"star", Graph::star(9).to(at::kDouble).normalised(.7)},
          {"weighted digraph", weighted_digraph()}};
}

Graph positive(const Graph& graph) {
  return graph.with_weights(graph.weights().abs());
}

/// Every mean over tables within 4 standard errors of W^t, for projections of R_t that are sums over many walks; and
/// the largest deviation over the cells (i, j, t) that were visited often, within what so many cells allow.
void expect_unbiased(const Graph& graph, const WalkOptions& options) {
  const int64_t n = graph.num_nodes();
  const at::Tensor expected = powers(graph, kTerms);
  at::Tensor sum = at::zeros_like(expected), squares = at::zeros_like(expected), visits = at::zeros_like(expected);
  at::manual_seed(11);
  const at::Tensor probes = at::randn({8, n, n}, at::kDouble);
  std::vector<at::Tensor> probed;
  for (int64_t k = 0; k < kTables; ++k) {
    WalkOptions one = options;
    one.seed = static_cast<uint64_t>(1000 + k);
    at::Tensor r = dense_hops(sample_walks(graph, one));
    r = at::constant_pad_nd(r, {0, 0, 0, 0, 0, std::max<int64_t>(0, kTerms - r.size(0))}).narrow(0, 0, kTerms);
    sum += r;
    squares += r * r;
    visits += r != 0;
    probed.push_back(at::einsum("pij,tij->tp", {probes, r - expected}));
  }
  const at::Tensor samples = at::stack(probed);  // [tables, terms, probes]
  const at::Tensor error = samples.std(0) / std::sqrt(static_cast<double>(kTables));
  const at::Tensor z = (samples.mean(0).abs() - 1e-12).clamp_min(0) / (error + 1e-15);
  EXPECT_LE(z.max().item<double>(), 4) << z;

  const at::Tensor mean = sum / kTables;
  const at::Tensor variance = (squares / kTables - mean * mean).clamp_min(0) / (kTables - 1);
  const at::Tensor frequent = visits >= 40;
  const at::Tensor cells = ((mean - expected).abs() - 1e-9).clamp_min(0) / (variance.sqrt() + 1e-12);
  const auto count = frequent.sum().item<double>();
  EXPECT_LE(cells.masked_select(frequent).max().item<double>(), std::sqrt(2 * std::log(count / 1e-4)));
  // What no walk can reach is not in the table.
  EXPECT_EQ(visits.masked_select(powers(positive(graph), kTerms) == 0).sum().item<double>(), 0);
}

void expect_unbiased_everywhere(const WalkOptions& options) {
  for (const Named& item : graphs()) {
    SCOPED_TRACE(item.name);
    expect_unbiased(item.graph, options);
  }
}

TEST(WalkBias, IndependentWalkers) {
  expect_unbiased_everywhere({.walkers = 4, .halting_probability = .4, .max_hops = 4});
}

TEST(WalkBias, FixedHops) {
  expect_unbiased_everywhere({.walkers = 4, .fixed_hops = 4});
}

TEST(WalkBias, AntitheticWalkers) {
  expect_unbiased_everywhere(
      {.walkers = 5, .halting_probability = .4, .max_hops = 4, .coupling = Coupling::antithetic});
}

TEST(WalkBias, RepellingWalkers) {
  expect_unbiased_everywhere({.walkers = 4, .halting_probability = .4, .max_hops = 4, .coupling = Coupling::repelling});
  expect_unbiased_everywhere(
      {.walkers = 6, .halting_probability = .4, .max_hops = 4, .coupling = Coupling::repelling, .ensemble = 3});
}

TEST(WalkBias, AntitheticRepellingWalkers) {
  expect_unbiased_everywhere(
      {.walkers = 4, .halting_probability = .4, .max_hops = 4, .coupling = Coupling::antithetic_repelling});
}

TEST(WalkBias, LengthsOfAnyDistribution) {
  expect_unbiased_everywhere({.walkers = 4, .survival = at::tensor({1., .9, .4, .35, .1}, at::kDouble)});
}

TEST(WalkBias, ExactHops) {
  expect_unbiased_everywhere({.walkers = 4, .halting_probability = .5, .max_hops = 4, .exact_hops = 2});
}

TEST(WalkBias, ProposalsByWeight) {
  expect_unbiased_everywhere({.walkers = 4, .halting_probability = .4, .max_hops = 4, .proposal = Proposal::weights});
}

TEST(WalkBias, ProposalsGiven) {
  for (const Named& item : graphs()) {
    SCOPED_TRACE(item.name);
    at::manual_seed(2);
    expect_unbiased(item.graph, {.walkers = 4,
                                 .halting_probability = .4,
                                 .max_hops = 4,
                                 .coupling = Coupling::antithetic,
                                 .proposal = Proposal::given,
                                 .proposal_weights = at::rand({item.graph.num_entries()}) + .1});
  }
}

TEST(WalkBias, DisjointRangesOfWalkersAreIndependent) {
  // Products of two tables have no bias then, on the diagonal either.
  const Graph graph = Graph::grid({3, 4}).to(at::kDouble).normalised(.8);
  const at::Tensor w = powers(graph, 2)[1], expected = at::matmul(w, w.t());
  at::Tensor sum = at::zeros_like(expected), squares = at::zeros_like(expected);
  for (int64_t k = 0; k < kTables; ++k) {
    const auto hop = [&](int64_t first) {
      return dense_hops(sample_walks(graph, {.walkers = 4, .max_hops = 1, .seed = 5, .first_walker = first}))[1];
    };
    const at::Tensor product = at::matmul(hop(8 * k), hop(8 * k + 4).t());
    sum += product;
    squares += product * product;
  }
  const at::Tensor mean = sum / kTables, error = ((squares / kTables - mean * mean) / kTables).sqrt();
  EXPECT_LE(((mean - expected).abs() / (error + 1e-9)).max().item<double>(), 4.5);
}

/// Squared relative Frobenius error of ΦΦᵀ, mean of many trials.
double error_of(const Graph& graph, Coupling coupling, int64_t trials) {
  const at::Tensor f = at::tensor({1., 1. / 2, 1. / 8, 1. / 48, 1. / 384, 1. / 3840, 1. / 46080}, at::kDouble);
  const auto mask = [&](const at::Tensor& r) {
    const int64_t terms = std::min<int64_t>(r.size(0), f.size(0));
    const at::Tensor phi = at::einsum("t,tij->ij", {f.narrow(0, 0, terms), r.narrow(0, 0, terms)});
    return at::matmul(phi, phi.t());
  };
  const at::Tensor exact = mask(powers(graph, f.size(0)));
  double total = 0;
  for (int64_t k = 0; k < trials; ++k) {
    const WalkTable table = sample_walks(
        graph, {.walkers = 4, .halting_probability = .5, .max_hops = 12, .coupling = coupling, .seed = uint64_t(k)});
    total += (mask(dense_hops(table)) - exact).square().sum().item<double>();
  }
  return total / static_cast<double>(trials) / exact.square().sum().item<double>();
}

TEST(WalkVarianceSlow, FallsWithEveryCoupling) {
  const Coupling couplings[] = {Coupling::independent, Coupling::antithetic, Coupling::repelling,
                                Coupling::antithetic_repelling};
  const auto expect = [&](const Graph& graph, const double(&figures)[4]) {
    for (int k = 0; k < 4; ++k) EXPECT_NEAR(error_of(graph, couplings[k], 300), figures[k], .05 * figures[k]) << k;
  };
  expect(Graph::grid({10, 10}).to(at::kDouble).normalised(.25), {.0134, .0111, .0073, .0068});
  expect(binary_tree(127).to(at::kDouble).normalised(.25), {.0122, .0085, .0065, .0043});
}

}  // namespace
}  // namespace topomask::testing

#include "walks/helpers.h"

namespace topomask::testing {
namespace {

void expect_refused(const WalkOptions& options, const std::string& text, const Graph& graph = Graph::path(5)) {
  EXPECT_ERROR(sample_walks(graph, options), "sample_walks: " + text);
}

TEST(WalkOptions, WalkersAreAtLeastOne) {
  expect_refused({.walkers = 0}, "walkers must be in [1, 2^31-1], got 0");
  expect_refused({.walkers = -3}, "walkers must be in [1, 2^31-1], got -3");
  expect_refused({.walkers = int64_t{1} << 31}, "walkers must be in [1, 2^31-1], got 2147483648");
}

TEST(WalkOptions, NumbersOfWalkersDoNotOverflow) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  expect_refused({.first_walker = kHuge},
                 "first_walker must be >= 0 and first_walker + walkers <= 2^32, got 9223372036");
  const Graph graph = Graph::path(5);
  EXPECT_ERROR(
      extend_walks(sample_walks(graph), graph, kHuge),
      "extend_walks: more_walkers must leave at most 2^31-1 walkers in all, got 9223372036854775807 in addition to 4");
}

TEST(WalkOptions, GivenLoadsAreFiniteWhereTheyAreRead) {
  const Graph graph = Graph::path(2);
  const at::Tensor nodes = at::tensor({0, 1, 1, -1}, at::kLong).view({2, 1, 2});
  at::Tensor loads = at::ones({2, 1, 2});
  loads[1][0][1] = NAN;  // after the end
  EXPECT_EQ(walk_table_from_walks(graph, nodes, {}, loads).num_nodes(), 2);
  loads[0][0][1] = NAN;
  EXPECT_ERROR(walk_table_from_walks(graph, nodes, {}, loads),
               "walk_table_from_walks: loads must be finite, got nan at hop 1 of walk 0 from node 0");
  loads[0][0][1] = -INFINITY;
  EXPECT_ERROR(walk_table_from_walks(graph, nodes, {}, loads), "loads must be finite, got -inf at hop 1");
}

TEST(WalkOptions, FirstWalkerIsCountedInWords) {
  expect_refused({.first_walker = -1}, "first_walker must be >= 0 and first_walker + walkers <= 2^32, got -1");
  expect_refused({.walkers = 2, .first_walker = (int64_t{1} << 32) - 1}, "first_walker must be >= 0");
  expect_refused({.coupling = Coupling::antithetic, .first_walker = 3},
                 "first_walker must be even for antithetic walkers, got 3");
}

TEST(WalkOptions, HaltingProbabilityIsInTheOpenInterval) {
  for (const double p : {0.0, 1.0, -0.5, 1.5, std::nan("")}) {
    expect_refused({.halting_probability = p}, "halting_probability must be in (0, 1), got");
  }
}

TEST(WalkOptions, HopsFitInSixteenBits) {
  expect_refused({.max_hops = -1}, "max_hops must be in [0, 32767], got -1");
  expect_refused({.max_hops = 32768}, "max_hops must be in [0, 32767], got 32768");
  expect_refused({.fixed_hops = -1}, "fixed_hops must be in [0, 32767], got -1");
  expect_refused({.fixed_hops = 40000}, "fixed_hops must be in [0, 32767], got 40000");
}

TEST(WalkOptions, SurvivalStartsAtOneAndDoesNotRise) {
  const auto survival = [](std::vector<double> values) { return at::tensor(values, at::kDouble); };
  expect_refused({.survival = at::ones({3})}, "survival must be float64 [K], K >= 1, on cpu, got");
  expect_refused({.survival = at::ones({0}, at::kDouble)}, "survival must be float64 [K], K >= 1, on cpu, got");
  expect_refused({.survival = survival({.9, .5})}, "survival must start at 1, got 0.9");
  expect_refused({.survival = survival({1, .5, .6})}, "survival must not rise nor fall below 0, got 0.6 after 0.5");
  expect_refused({.survival = survival({1, -.5})}, "survival must not rise nor fall below 0, got -0.5 after 1");
  expect_refused({.survival = survival({1, std::nan("")})}, "survival must not rise nor fall below 0, got nan");
  expect_refused({.fixed_hops = 2, .survival = survival({1})}, "fixed_hops and survival must not both be given");
}

TEST(WalkOptions, ExactHopsAreNoMoreThanTheLongestWalk) {
  expect_refused({.max_hops = 3, .exact_hops = 4}, "exact_hops must be between 0 and the longest walk, 3, got 4");
  expect_refused({.exact_hops = -1}, "exact_hops must be between 0 and the longest walk, 100, got -1");
}

TEST(WalkOptions, EnsemblesDivideRepellingWalkers) {
  expect_refused({.walkers = 6, .coupling = Coupling::repelling, .ensemble = 4},
                 "ensemble must be 0 or divide walkers = 6, got 4");
  expect_refused({.walkers = 6, .coupling = Coupling::repelling, .ensemble = -2},
                 "ensemble must be 0 or divide walkers = 6, got -2");
  expect_refused({.walkers = 6, .ensemble = 3}, "ensemble is for repelling walkers only, got 3");
  expect_refused({.walkers = 6, .coupling = Coupling::antithetic_repelling, .ensemble = 3},
                 "ensemble must be even for antithetic walkers, got 3");
}

TEST(WalkOptions, RepellingWalkersTakeUniformProposalsOnly) {
  expect_refused({.coupling = Coupling::repelling, .proposal = Proposal::weights},
                 "proposal must be uniform for repelling walkers");
}

TEST(WalkOptions, ProposalWeightsCoverTheWeights) {
  const Graph graph = Graph::path(3);
  const auto given = [](at::Tensor weights) {
    return WalkOptions{.proposal = Proposal::given, .proposal_weights = std::move(weights)};
  };
  expect_refused(given({}), "proposal_weights must be float32 or float64 [entries = 4] on cpu, got undefined", graph);
  expect_refused(given(at::ones({3})), "proposal_weights must be float32 or float64 [entries = 4] on cpu", graph);
  expect_refused(given(at::tensor({1., 0., 1., 1.})),
                 "proposal_weights must be finite, and positive where the graph's weights are not zero, got 0", graph);
  expect_refused(given(at::tensor({1., -1., 1., 1.})), "proposal_weights must be finite", graph);
  expect_refused(given(at::tensor({1., std::nan(""), 1., 1.})), "proposal_weights must be finite", graph);
  expect_refused({.proposal_weights = at::ones({4})}, "proposal_weights are for Proposal::given only", graph);
}

TEST(WalkOptions, SurvivalThatEndsLimitsTheWalk) {
  const auto table = sample_walks(Graph::cycle(5), {.survival = at::tensor({1., .5, .5, 0., 0.}, at::kDouble)});
  EXPECT_EQ(table.max_hops(), 2);
  EXPECT_EQ(sample_walks(Graph::cycle(5), {.max_hops = 1, .survival = at::ones({4}, at::kDouble)}).max_hops(), 1);
  EXPECT_EQ(sample_walks(Graph::cycle(5), {.fixed_hops = 200}).max_hops(), 200);
}

}  // namespace
}  // namespace topomask::testing

#include "walks/helpers.h"

namespace topomask::testing {
namespace {

std::vector<WalkOptions> variants() {
  const WalkOptions base{.walkers = 6, .halting_probability = .25, .max_hops = 8, .seed = 13};
  std::vector<WalkOptions> all(7, base);
  all[1].coupling = Coupling::antithetic;
  all[2].coupling = Coupling::repelling;
  all[3].coupling = Coupling::repelling, all[3].ensemble = 3;
  all[4].coupling = Coupling::antithetic_repelling, all[4].ensemble = 2, all[4].first_walker = 4;
  all[5].proposal = Proposal::weights;
  all[6].fixed_hops = 3;
  return all;
}

TEST(ExtendWalks, EqualsSamplingMoreWalkers) {
  for (const Graph& graph : {Graph::grid({7, 9}).normalised(.9), weighted_digraph(), Graph::path(0)}) {
    for (WalkOptions options : variants()) {
      for (const bool products : {false, true}) {
        options.group_products = products;
        WalkOptions more = options;
        more.walkers = 12;
        const WalkTable table = sample_walks(graph, options);
        expect_same(extend_walks(table, graph, 6), sample_walks(graph, more));
        expect_same(extend_walks(table, graph, 0), table);
      }
    }
  }
}

TEST(ExtendWalks, GivesAnOddAntitheticWalkerItsPartner) {
  const Graph graph = Graph::grid({5, 5}).normalised(.9);
  for (const bool products : {false, true}) {
    WalkOptions options{.walkers = 3, .coupling = Coupling::antithetic, .group_products = products};
    const WalkTable table = sample_walks(graph, options);
    options.walkers = 7;
    expect_same(extend_walks(table, graph, 4), sample_walks(graph, options));
  }
}

TEST(ExtendWalks, RefusesWhatItCannotExtend) {
  const Graph graph = Graph::path(3);
  const WalkTable table = sample_walks(graph, {.walkers = 4, .coupling = Coupling::repelling, .ensemble = 2});
  EXPECT_ERROR(extend_walks(table, graph, -1), "extend_walks: more_walkers must be >= 0, got -1");
  EXPECT_ERROR(extend_walks(table, graph, 1), "extend_walks: ensemble must be 0 or divide walkers = 5, got 2");
  EXPECT_ERROR(extend_walks(table, Graph::path(4), 2),
               "extend_walks: graph must have 3 nodes and Float weights as the table has, got 4 and Float");
  EXPECT_ERROR(extend_walks(table, graph.to(at::kDouble), 2),
               "extend_walks: graph must have 3 nodes and Float weights");
  const WalkTable brought = walk_table_from_walks(graph, at::arange(3).view({3, 1, 1}));
  EXPECT_ERROR(extend_walks(brought, graph, 1),
               "extend_walks: table must come from sample_walks, not from given walks");
}

/// The graph without the edge between nodes a and b.
Graph without(const Graph& graph, int64_t a, int64_t b) {
  const at::Tensor rows = at::repeat_interleave(at::arange(graph.num_nodes()), graph.offsets().diff());
  const at::Tensor columns = graph.columns().to(at::kLong);
  const at::Tensor keep = ~(((rows == a) & (columns == b)) | ((rows == b) & (columns == a)));
  return Graph::from_edges(graph.num_nodes(), rows.index({keep}), columns.index({keep}), graph.weights().index({keep}),
                           {.directed = true});
}

TEST(ResampleWalks, EqualsSamplingOnTheNewGraph) {
  const Graph before = Graph::grid({12, 11}).normalised(.9);
  for (const Graph& after : {without(before, 40, 41), without(before, 40, 41).normalised(.9)}) {
    for (WalkOptions options : variants()) {
      for (const bool products : {false, true}) {
        options.group_products = products;
        const ResampledWalks result = resample_walks(sample_walks(before, options), before, after);
        expect_same(result.table, sample_walks(after, options));
        EXPECT_GT(result.rows, 2);
        EXPECT_LT(result.rows, after.num_nodes() / 2);
      }
    }
  }
}

TEST(ResampleWalks, SamplesNothingWhereNothingChanged) {
  const Graph graph = Graph::grid({5, 5});
  const WalkTable table = sample_walks(graph);
  const ResampledWalks result = resample_walks(table, graph, graph);
  EXPECT_EQ(result.rows, 0);
  expect_same(result.table, table);
}

TEST(ResampleWalks, SeesWeightsAndProposals) {
  const Graph graph = Graph::path(30).to(at::kDouble);
  const at::Tensor proposal = at::ones({graph.num_entries()}, at::kDouble), other = proposal.clone();
  other[20] = 5;
  const WalkOptions options{.max_hops = 3, .proposal = Proposal::given, .proposal_weights = proposal};
  WalkOptions changed = options;
  changed.proposal_weights = other;
  const ResampledWalks result = resample_walks(sample_walks(graph, options), graph, graph, other);
  expect_same(result.table, sample_walks(graph, changed));
  EXPECT_GT(result.rows, 0);
  EXPECT_LT(result.rows, 10);

  at::Tensor weights = graph.weights().clone();
  weights[0] = weights[1] = 2;
  const Graph heavier = graph.with_weights(weights);
  const WalkTable table = sample_walks(graph);
  expect_same(resample_walks(table, graph, heavier).table, sample_walks(heavier));
}

TEST(ResampleWalks, RefusesOtherGraphs) {
  const Graph graph = Graph::path(3);
  const WalkTable table = sample_walks(graph);
  EXPECT_ERROR(resample_walks(table, Graph::path(4), graph),
               "resample_walks: before must have 3 nodes and Float weights");
  EXPECT_ERROR(resample_walks(table, graph, Graph::path(4)),
               "resample_walks: after must have 3 nodes and Float weights");
  EXPECT_ERROR(resample_walks(table, graph, graph, at::ones({4})),
               "resample_walks: proposal_weights are for Proposal::given only");
  const WalkTable given = sample_walks(graph, {.proposal = Proposal::given, .proposal_weights = at::ones({4})});
  EXPECT_ERROR(resample_walks(given, without(graph, 0, 1), graph, at::ones({4})),
               "resample_walks: before must have 4 entries, as many as the table's proposal_weights, got 2");
  const WalkTable brought = walk_table_from_walks(graph, at::arange(3).view({3, 1, 1}));
  EXPECT_ERROR(resample_walks(brought, graph, graph), "resample_walks: table must come from sample_walks");
}

}  // namespace
}  // namespace topomask::testing

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "topomask/dist.h"

namespace topomask {
namespace {

std::vector<WalkOptions> samplers(const Graph& graph) {
  std::vector<WalkOptions> all;
  for (const Coupling coupling :
       {Coupling::independent, Coupling::antithetic, Coupling::repelling, Coupling::antithetic_repelling}) {
    all.push_back({.walkers = 6, .halting_probability = 0.3, .coupling = coupling, .seed = 5});
  }
  all.push_back({.walkers = 4, .coupling = Coupling::repelling, .ensemble = 2, .seed = 6});
  all.push_back({.walkers = 3, .fixed_hops = 4, .seed = 7});
  all.push_back({.walkers = 3, .survival = at::tensor({1.0, 0.7, 0.2, 0.1}, at::kDouble), .seed = 8});
  all.push_back({.walkers = 3, .exact_hops = 2, .proposal = Proposal::weights, .seed = 9, .first_walker = 10});
  all.push_back({.walkers = 5,
                 .proposal = Proposal::given,
                 .proposal_weights = graph.weights().abs() + 0.5,
                 .group_products = true,
                 .seed = 10});
  return all;
}

TEST(SampleWalksFrom, EveryPartOfEverySamplerIsBitEqualToTheWhole) {
  const Graph graph = Graph::erdos_renyi(97, 0.05, 2).normalised();
  for (const WalkOptions& options : samplers(graph)) {
    const WalkTable whole = sample_walks(graph, options);
    for (const int64_t parts : {1, 2, 3, 4, 8}) {
      const Partition cut = partition(graph, parts);
      for (int64_t part = 0; part < parts; ++part) {
        const at::Tensor nodes = cut.nodes(part);
        const WalkTable::Arrays rows = sample_walks_from(graph, nodes, options);
        ASSERT_EQ(rows.offsets.size(0), nodes.size(0) + 1);
        for (int64_t r = 0; r < nodes.size(0); ++r) {
          const int64_t i = nodes[r].item<int64_t>();
          const auto range = [](const at::Tensor& values, const at::Tensor& offsets, int64_t row) {
            return values.slice(0, offsets[row].item<int64_t>(), offsets[row + 1].item<int64_t>());
          };
          const auto same = [&](const at::Tensor& mine, const at::Tensor& all) {
            return range(mine, rows.offsets, r).equal(range(all, whole.offsets(), i));
          };
          ASSERT_TRUE(same(rows.columns, whole.columns()) && same(rows.hops, whole.hops()) &&
                      same(rows.loads, whole.loads()) && same(rows.counts, whole.counts()))
              << "row " << i << " of " << parts << " parts";
        }
      }
    }
  }
}

/// The rows of W that a part owns, in the numbering of the whole graph, and which entries of W they are.
std::pair<Graph, at::Tensor> rows_of_part(const Graph& graph, const Partition& cut, int64_t part) {
  const at::Tensor lengths = graph.offsets().diff(), mine = cut.owners == part;
  const at::Tensor entries = at::nonzero(at::repeat_interleave(mine, lengths)).squeeze(1);
  const at::Tensor offsets = at::cat({at::zeros({1}, at::kLong), (lengths * mine).cumsum(0)});
  return {Graph::from_csr(offsets, graph.columns().index_select(0, entries), graph.weights().index_select(0, entries),
                          /*directed=*/true),
          entries};
}

Travellers chosen(const Travellers& all, const at::Tensor& which) {
  return {all.starts.index_select(0, which), all.numbers.index_select(0, which), all.positions.index_select(0, which),
          all.loads.index_select(0, which)};
}

Travellers joined(const std::vector<Travellers>& parts) {
  std::vector<at::Tensor> starts, numbers, positions, loads;
  for (const Travellers& part : parts) {
    starts.push_back(part.starts);
    numbers.push_back(part.numbers);
    positions.push_back(part.positions);
    loads.push_back(part.loads);
  }
  return {at::cat(starts), at::cat(numbers), at::cat(positions), at::cat(loads)};
}

TEST(Travel, WalkersThatGoFromPartToPartVisitWhatThoseOfOneProcessDo) {
  const Graph graph = Graph::erdos_renyi(83, 0.05, 2).normalised();  // has nodes without edges
  const int64_t nodes = graph.num_nodes();
  for (const WalkOptions& options : samplers(graph)) {
    if (options.group_products) continue;
    const WalkTable whole = sample_walks(graph, options);
    for (const int64_t parts : {1, 3, 8}) {
      const Partition cut = partition(graph, parts);
      const at::Tensor starts = at::arange(nodes).repeat_interleave(options.walkers);
      const at::Tensor numbers =
          at::arange(options.first_walker, options.first_walker + options.walkers).repeat({nodes});
      std::vector<Travellers> visits{{starts, numbers, starts, at::ones({starts.size(0)}, graph.weights().options())}};
      std::vector<at::Tensor> hops{at::zeros_like(starts)};
      std::vector<Graph> rows;
      std::vector<WalkOptions> own;
      std::vector<TravelGround> ground;
      for (int64_t part = 0; part < parts; ++part) {
        const auto [graph_of_part, entries] = rows_of_part(graph, cut, part);
        rows.push_back(graph_of_part);
        own.push_back(options);
        if (options.proposal == Proposal::given) {
          own.back().proposal_weights = options.proposal_weights.index_select(0, entries);
        }
        ground.emplace_back(rows.back(), own.back());
      }
      for (int64_t hop = 0; visits.back().starts.size(0) > 0 && hop < whole.max_hops(); ++hop) {
        std::vector<Travellers> arrived;
        for (size_t part = 0; part < ground.size(); ++part) {
          const at::Tensor here = cut.owners.index_select(0, visits.back().positions) == static_cast<int64_t>(part);
          const Travellers from = chosen(visits.back(), at::nonzero(here).squeeze(1));
          // Prepared once, or for each hop.
          arrived.push_back(part % 2 ? travel(rows[part], own[part], hop, from) : ground[part].travel(hop, from));
        }
        const Travellers all = joined(arrived);
        visits.push_back(chosen(all, at::argsort(all.starts * 1000 + all.numbers)));
        hops.push_back(at::full_like(visits.back().starts, hop + 1));
      }
      const Travellers everything = joined(visits);
      const WalkTable::Arrays table = table_of_visits(at::arange(nodes), nodes, options, everything, at::cat(hops));
      EXPECT_TRUE(table.offsets.equal(whole.offsets())) << parts << " parts";
      EXPECT_TRUE(table.columns.equal(whole.columns()) && table.hops.equal(whole.hops()) &&
                  table.loads.equal(whole.loads()) && table.counts.equal(whole.counts()))
          << parts << " parts";
    }
  }
}

TEST(Travel, RefusesWalkersAndHopsThatCannotBe) {
  const Graph graph = Graph::path(5);
  const at::Tensor two = at::arange(2), loads = at::ones({2});
  const auto text = [&](int64_t hop, const Travellers& walkers) -> std::string {
    try {
      travel(graph, {.max_hops = 3}, hop, walkers);
    } catch (const c10::Error& error) {
      return error.what_without_backtrace();
    }
    return "nothing was refused";
  };
  EXPECT_NE(text(3, {two, two, two, loads}).find("travel: hop must be in [0, 3), got 3"), std::string::npos);
  EXPECT_NE(text(0, {two, two, two + 4, loads}).find("travel: positions must be in [0, 5), got 5"), std::string::npos);
  EXPECT_NE(text(0, {two, at::arange(3), two, loads}).find("travel: starts, numbers and positions must be Long [2]"),
            std::string::npos);
  EXPECT_NE(text(0, {two, two, two, loads.to(at::kDouble)}).find("travel: loads must be Float [2] on cpu"),
            std::string::npos);
}

TEST(SampleWalksFrom, RefusesStartsThatDoNotAscend) {
  const Graph graph = Graph::path(5);
  for (const auto& starts : {std::vector<int64_t>{1, 1}, {3, 2}, {-1}, {5}}) {
    EXPECT_THROW(sample_walks_from(graph, at::tensor(starts), {}), c10::Error);
  }
  EXPECT_EQ(sample_walks_from(graph, at::empty({0}, at::kLong), {}).offsets.size(0), 1);
}

}  // namespace
}  // namespace topomask

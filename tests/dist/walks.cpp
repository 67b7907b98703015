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

TEST(SampleWalksFrom, RefusesStartsThatDoNotAscend) {
  const Graph graph = Graph::path(5);
  for (const auto& starts : {std::vector<int64_t>{1, 1}, {3, 2}, {-1}, {5}}) {
    EXPECT_THROW(sample_walks_from(graph, at::tensor(starts), {}), c10::Error);
  }
  EXPECT_EQ(sample_walks_from(graph, at::empty({0}, at::kLong), {}).offsets.size(0), 1);
}

}  // namespace
}  // namespace topomask

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

#include "topomask/dist.h"

namespace topomask {
namespace {

std::vector<PartitionMethod> methods() {
  std::vector<PartitionMethod> all{PartitionMethod::automatic, PartitionMethod::cuthill_mckee, PartitionMethod::ranges};
  if (has_metis()) all.push_back(PartitionMethod::metis);
  return all;
}

template <class Function>
std::string refusal(const Function& function) {
  try {
    function();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "nothing was refused";
}

TEST(Partition, EveryMethodGivesEveryPartNodes) {
  for (const Graph& graph : {Graph::path(1), Graph::path(7), Graph::grid({9, 11}), Graph::star(63), Graph::complete(5),
                             Graph::erdos_renyi(1000, 0.002, 3)}) {
    for (const PartitionMethod method : methods()) {
      for (int64_t parts = 1; parts <= std::min<int64_t>(graph.num_nodes(), 8); ++parts) {
        const Partition made = partition(graph, parts, method);
        ASSERT_EQ(made.num_nodes(), graph.num_nodes());
        const at::Tensor sizes = partition_statistics(graph, made).rows;
        EXPECT_EQ(sizes.sum().item<int64_t>(), graph.num_nodes());
        EXPECT_GE(sizes.min().item<int64_t>(), 1);
        for (int64_t part = 0; part < parts; ++part) {
          EXPECT_TRUE(made.owners.index_select(0, made.nodes(part)).eq(part).all().item<bool>());
        }
      }
    }
  }
}

TEST(Partition, RangesDifferByOneNodeAtMost) {
  const Graph graph = Graph::cycle(1000);
  for (const PartitionMethod method : {PartitionMethod::ranges, PartitionMethod::cuthill_mckee}) {
    const at::Tensor sizes = partition_statistics(graph, partition(graph, 7, method)).rows;
    EXPECT_LE((sizes.max() - sizes.min()).item<int64_t>(), 1);
  }
}

TEST(Partition, CuthillMcKeeFollowsAScrambledPath) {
  const at::Tensor order = (at::arange(101, at::kLong) * 37) % 101;
  const Graph graph = permuted(Graph::path(101), order);
  const PartitionStatistics found = partition_statistics(graph, partition(graph, 4, PartitionMethod::cuthill_mckee));
  EXPECT_EQ(found.cut_entries, 6);  // three cut edges, in both rows
}

TEST(Partition, StatisticsCountDistinctColumns) {
  // Two stars' worth: part 0 = {0, 1}, part 1 = {2, 3, 4}; node 2 is seen from 0 and from 1.
  const auto edge = [](std::initializer_list<int64_t> list) { return at::tensor(at::IntArrayRef(list)); };
  const Graph graph = Graph::from_edges(5, edge({0, 1, 3, 0}), edge({2, 2, 4, 1}));
  const PartitionStatistics found = partition_statistics(graph, given_partition(5, edge({0, 0, 1, 1, 1}), 2));
  EXPECT_TRUE(found.rows.equal(edge({2, 3})));
  EXPECT_TRUE(found.entries.equal(edge({4, 4})));
  EXPECT_TRUE(found.halo.equal(edge({1, 2})));
  EXPECT_EQ(found.cut_entries, 4);
}

TEST(Partition, MetisTakesDirectedGraphsWithLoops) {
  if (!has_metis()) GTEST_SKIP() << "built without METIS";
  const at::Tensor from = at::arange(200, at::kLong), to = (from + 1) % 200;
  const Graph graph = Graph::from_edges(200, at::cat({from, from}), at::cat({to, from}), {}, {.directed = true});
  const PartitionStatistics found = partition_statistics(graph, partition(graph, 4, PartitionMethod::metis));
  EXPECT_LE(found.cut_entries, 12);
}

TEST(Partition, MetisCutsAGridBelowRanges) {
  if (!has_metis()) GTEST_SKIP() << "built without METIS";
  const Graph graph = Graph::grid({60, 60});
  const auto halo = [&](PartitionMethod method) {
    return partition_statistics(graph, partition(graph, 9, method)).halo.sum().item<int64_t>();
  };
  EXPECT_LT(halo(PartitionMethod::metis), halo(PartitionMethod::ranges));
}

TEST(Partition, FingerprintsTellPartitionsApart) {
  const at::Tensor owners = at::arange(100, at::kLong) % 4;
  std::set<int64_t> seen;
  for (int64_t node = 0; node < 100; ++node) {
    at::Tensor other = owners.clone();
    other[node] = (other[node].item<int64_t>() + 1) % 4;
    seen.insert(given_partition(100, other, 4).fingerprint());
  }
  seen.insert(given_partition(100, owners, 4).fingerprint());
  EXPECT_EQ(seen.size(), 101u);
}

TEST(Partition, RefusesWrongArguments) {
  const Graph graph = Graph::path(5);
  EXPECT_EQ(refusal([&] { partition(graph, 0); }), "partition: parts must be in [1, N = 5], got 0");
  EXPECT_EQ(refusal([&] { partition(graph, 6); }), "partition: parts must be in [1, N = 5], got 6");
  EXPECT_EQ(refusal([&] { given_partition(5, at::zeros({4}, at::kLong), 1); }),
            "partition: owners must be Int or Long [N = 5], got Long[4] on cpu");
  EXPECT_EQ(refusal([&] { given_partition(5, at::arange(5, at::kLong), 4); }),
            "partition: owners must be in [0, parts = 4), got 4 for node 4");
  EXPECT_EQ(refusal([&] { given_partition(5, at::zeros({5}, at::kInt), 2); }),
            "partition: every part must own a node, got none for part 1 of 2");
}

}  // namespace
}  // namespace topomask

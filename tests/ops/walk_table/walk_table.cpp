#include "cuda/on_cuda.h"
#include "support/compare.h"
#include "topomask/walks.h"

// The operators `walk_table` and `walk_visits` have the random numbers of the CPU, which cuda/walks.cpp compares. Here
// there is no chance: each node of a directed cycle has one neighbour.

namespace topomask {
namespace {

using at::Tensor;
using WalkTableOp = testing::OnCuda;

TEST_F(WalkTableOp, FollowsADirectedCycle) {
  constexpr int64_t kNodes = 70, kHops = 4, kWalkers = 3;
  const Tensor source = at::arange(kNodes), target = (source + 1) % kNodes;
  const Tensor weights = at::linspace(0.5, 1.5, kNodes, at::kDouble);
  const Graph graph = Graph::from_edges(kNodes, source, target, weights, {.directed = true}).to(cuda_);
  const WalkTable table = sample_walks(graph, {.walkers = kWalkers, .fixed_hops = kHops}).to(at::kCPU);
  const Tensor matrix = graph.to(at::kCPU).matrix().dense();
  const Tensor rows = at::repeat_interleave(at::arange(kNodes), table.offsets().diff());
  Tensor power = at::eye(kNodes, at::kDouble);
  for (int64_t hop = 0; hop <= kHops; ++hop, power = at::matmul(power, matrix)) {
    const Tensor here = (table.hops() == hop).nonzero().select(1, 0);
    EXPECT_EQ(here.size(0), kNodes);
    const Tensor from = rows.index_select(0, here), to = table.columns().index_select(0, here).to(at::kLong);
    EXPECT_TRUE(to.equal((from + hop) % kNodes));
    EXPECT_TRUE(table.counts().index_select(0, here).eq(kWalkers).all().item<bool>());
    const Tensor loads = power.flatten().index_select(0, from * kNodes + to) * kWalkers;
    EXPECT_TRUE(testing::close(table.loads().index_select(0, here), loads, 1e-14));
  }
}

}  // namespace
}  // namespace topomask

#include "topomask/neighbour_walks.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/compare.h"
#include "topomask/attention.h"
#include "topomask/grf.h"
#include "topomask/power_series.h"
#include "topomask/walks.h"

namespace topomask {
namespace {

using at::Tensor;
using testing::close;
using testing::gradients;

Tensor clouds(int64_t count, int64_t points, at::ScalarType type = at::kDouble) {
  return at::rand({count, points, 3}, at::dtype(type));
}

WalkTable repelling_walks(const Graph& graph, int64_t walkers, uint64_t seed) {
  return sample_walks(graph, {.walkers = walkers, .fixed_hops = 3, .coupling = Coupling::repelling, .seed = seed});
}

TEST(NeighbourWalks, AreTheTableOfRepellingWalkersAndThePowerSeries) {
  const Tensor neighbours = cloud_neighbours(clouds(2, 40), 3);
  const NeighbourWalks walks(neighbours, 3);
  EXPECT_EQ(walks.paths(), 40);
  const Graph graph = cloud_graph(neighbours).normalised().to(at::kDouble);
  const Tensor f = at::tensor({0.7, -0.4, 0.9, 1.3}, at::kDouble);
  const Tensor dense = walks.dense(f);
  EXPECT_TRUE(close(dense, power_series_mask(graph, f)->dense(), 1e-7));  // 1/3 comes from float32 weights
  for (const uint64_t seed : {1, 2}) {
    EXPECT_TRUE(close(dense, asymmetric_grf_mask(repelling_walks(graph, 27, seed), f)->dense(), 1e-7));
    EXPECT_TRUE(close(dense, asymmetric_grf_mask(repelling_walks(graph, 54, seed), f)->dense(), 1e-7));
  }
  EXPECT_EQ(dense.slice(0, 0, 40).slice(1, 40).abs().max().item<double>(), 0);  // no edge between clouds
}

TEST(NeighbourWalks, TakesMultiplesOfAllPaths) {
  EXPECT_TRUE(NeighbourWalks::takes(27, 3, 3));
  EXPECT_TRUE(NeighbourWalks::takes(54, 3, 3));
  EXPECT_FALSE(NeighbourWalks::takes(26, 3, 3));
  EXPECT_FALSE(NeighbourWalks::takes(9, 3, 3));
  EXPECT_TRUE(NeighbourWalks::takes(5, 1, 30));
}

TEST(NeighbourWalks, AttentionMatchesTheDenseReferenceWithAllGradients) {
  for (const int64_t points : {4, 5, 63}) {
    const NeighbourWalks walks(cloud_neighbours(clouds(2, points), 3), 2);
    const auto leaf = [](Tensor x) { return x.requires_grad_(true); };
    const std::vector<Tensor> inputs{leaf(at::rand({2, points, 5}, at::kDouble)),
                                     leaf(at::rand({2, points, 5}, at::kDouble)),
                                     leaf(at::randn({2, points, 7}, at::kDouble)), leaf(at::rand({3}, at::kDouble))};
    const Tensor out = neighbour_attention(inputs[0], inputs[1], inputs[2], walks, inputs[3]);
    const Tensor weights = walks.dense(inputs[3]) * at::matmul(inputs[0].flatten(0, 1), inputs[1].flatten(0, 1).t());
    const Tensor expected = (at::matmul(weights, inputs[2].flatten(0, 1)) / weights.sum(1, true)).view_as(out);
    EXPECT_TRUE(close(out, expected, 1e-12));
    const Tensor cotangent = at::randn_like(out);
    const auto actual = gradients(out, cotangent, inputs), wanted = gradients(expected, cotangent, inputs);
    for (size_t i = 0; i < inputs.size(); ++i) EXPECT_TRUE(close(actual[i], wanted[i], 1e-10)) << i;
  }
}

TEST(NeighbourWalks, ChecksItsArguments) {
  const Tensor neighbours = cloud_neighbours(clouds(1, 9), 2);
  const NeighbourWalks walks(neighbours, 1);
  EXPECT_ERROR(NeighbourWalks(neighbours, -1), "NeighbourWalks: hops must be in [0, 30], got -1");
  EXPECT_ERROR(NeighbourWalks(neighbours.to(at::kLong), 1), "neighbours must be int32 [B, N, k >= 1]");
  EXPECT_ERROR(NeighbourWalks(neighbours, 30), "fewer than 2^31 paths");
  EXPECT_ERROR(walks.values(at::ones({3})), "f must be float32 or float64 [hops + 1 = 2]");
  const Tensor x = at::rand({1, 8, 3});
  EXPECT_ERROR(neighbour_attention(x, x, x, walks, at::ones({2})), "must have 9 rows");
}

TEST(CloudGraph, SymmetricHasAnEdgeWhereEitherEndChoseTheOther) {
  const Tensor neighbours = cloud_neighbours(clouds(2, 30), 3);
  const Tensor directed = cloud_graph(neighbours).matrix().dense(),
               either = symmetric_cloud_graph(neighbours).matrix().dense();
  EXPECT_TRUE(at::equal(either, at::maximum(directed, directed.t())));
}

}  // namespace
}  // namespace topomask

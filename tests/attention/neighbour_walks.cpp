#include "topomask/neighbour_walks.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "ops/nearest_neighbours/op.h"
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

/// By comparing all pairs in one cloud.
Tensor brute_force(const Tensor& queries, const Tensor& points, int64_t k, bool exclude_self) {
  Tensor distance = (queries.unsqueeze(2) - points.unsqueeze(1)).square().sum(-1);
  if (exclude_self) distance = distance + at::diag_embed(at::full({points.size(0), points.size(1)}, 1e9, at::kDouble));
  return std::get<1>(distance.sort(/*stable=*/true, 2, false)).slice(2, 0, k).to(at::kInt);
}

TEST(NearestPoints, MatchesBruteForceInEveryCloud) {
  for (const int64_t points : {2, 7, 63, 300}) {
    const Tensor cloud = clouds(3, points), queries = clouds(3, 41);
    for (const int64_t k : {int64_t{1}, std::min<int64_t>(16, points - 1)}) {
      EXPECT_TRUE(at::equal(cloud_neighbours(cloud, k), brute_force(cloud, cloud, k, true)));
      EXPECT_TRUE(at::equal(ops::nearest_neighbours::find_in_clouds(queries, cloud, k, false),
                            brute_force(queries, cloud, k, false)));
    }
  }
}

TEST(NearestPoints, TakesEqualPointsStridesAndNoQueries) {
  const Tensor same = at::zeros({1, 5, 3}, at::kDouble);
  EXPECT_TRUE(at::equal(cloud_neighbours(same, 2)[0][0], at::tensor({1, 2}, at::kInt)));
  EXPECT_TRUE(at::equal(cloud_neighbours(same, 2)[0][1], at::tensor({0, 2}, at::kInt)));
  const Tensor strided = at::rand({3, 20, 2}, at::kDouble).permute({2, 1, 0});
  EXPECT_TRUE(at::equal(cloud_neighbours(strided, 4), cloud_neighbours(strided.contiguous(), 4)));
  EXPECT_EQ(ops::nearest_neighbours::find_in_clouds(clouds(2, 0), clouds(2, 5), 3, false).sizes(),
            (std::vector<int64_t>{2, 0, 3}));
}

TEST(NearestPoints, ChecksItsArguments) {
  const Tensor cloud = clouds(2, 5);
  EXPECT_ERROR(cloud_neighbours(cloud, 5), "nearest_points: k must be in [1, 4], the points of a cloud but one, got 5");
  EXPECT_ERROR(ops::nearest_neighbours::find_in_clouds(cloud, cloud, 6, false), "k must be in [1, 5]");
  EXPECT_ERROR(ops::nearest_neighbours::find_in_clouds(clouds(3, 5), cloud, 1, false), "queries must be [B = 2");
  EXPECT_ERROR(cloud_neighbours(at::full({1, 4, 3}, NAN), 2), "must be finite");
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

#include "ops/nearest_neighbours/op.h"
#include "support/compare.h"
#include "topomask/neighbour_walks.h"

namespace topomask {
namespace {

using at::Tensor;

Tensor random_clouds(int64_t count, int64_t points, at::ScalarType type = at::kDouble) {
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
    const Tensor cloud = random_clouds(3, points), queries = random_clouds(3, 41);
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
  EXPECT_EQ(ops::nearest_neighbours::find_in_clouds(random_clouds(2, 0), random_clouds(2, 5), 3, false).sizes(),
            (std::vector<int64_t>{2, 0, 3}));
}

TEST(NearestPoints, ChecksItsArguments) {
  const Tensor cloud = random_clouds(2, 5);
  EXPECT_ERROR(cloud_neighbours(cloud, 5), "nearest_points: k must be in [1, 4], the points of a cloud but one, got 5");
  EXPECT_ERROR(ops::nearest_neighbours::find_in_clouds(cloud, cloud, 6, false), "k must be in [1, 5]");
  EXPECT_ERROR(ops::nearest_neighbours::find_in_clouds(random_clouds(3, 5), cloud, 1, false), "queries must be [B = 2");
  EXPECT_ERROR(cloud_neighbours(at::full({1, 4, 3}, NAN), 2), "must be finite");
}

TEST(NearestPoints, SupportAnyNumberOfNeighboursAndCoordinatesOnTheCpu) {
  using ops::nearest_neighbours::supports;
  EXPECT_TRUE(supports(1, 1, at::kCPU) && supports(33, 33, at::kCPU));
  EXPECT_FALSE(supports(0, 3, at::kCPU) || supports(3, 0, at::kCPU));
  EXPECT_TRUE(supports(1, 1, at::kCUDA) && supports(32, 32, at::kCUDA));
  EXPECT_FALSE(supports(33, 3, at::kCUDA) || supports(3, 33, at::kCUDA) || supports(0, 3, at::kCUDA));
  EXPECT_EQ(cloud_neighbours(at::rand({1, 40, 33}), 33).sizes(), (std::vector<int64_t>{1, 40, 33}));
}

}  // namespace
}  // namespace topomask

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "nn/points/testing.h"
#include "support/compare.h"
#include "topomask/nn/point_clouds.h"

namespace topomask {
namespace {

using at::Tensor;
using testing::close;

TEST(Cameras, UnprojectPixelByPixel) {
  const auto [k, pose] = testing::two_cameras(3);
  const Cameras cameras(k, pose, 5, 7, at::kDouble);
  const Tensor depth = at::rand({3, 2, 5, 7}, at::kDouble) + 0.5, points = cameras.unproject(depth);
  for (const auto& [b, c, row, column] : {std::array<int64_t, 4>{0, 0, 0, 0}, {1, 1, 4, 6}, {2, 0, 3, 2}}) {
    const Tensor pixel = at::tensor({column + 0.5, row + 0.5, 1.0}, at::kDouble);
    const Tensor seen = at::mv(at::linalg_inv(k[b][c]), pixel) * depth[b][c][row][column];
    const Tensor expected = at::mv(pose[b][c], at::cat({seen, at::ones({1}, at::kDouble)})).slice(0, 0, 3);
    EXPECT_TRUE(close(points[b][c][row * 7 + column], expected, 1e-12));
  }
}

TEST(Cameras, ProjectUndoesUnproject) {
  const auto [k, pose] = testing::two_cameras(2);
  const Cameras cameras(k, pose, 4, 6, at::kDouble);
  const Tensor depth = at::rand({2, 2, 4, 6}, at::kDouble) + 0.5;
  const Tensor points = cameras.unproject(depth);
  for (int64_t c = 0; c < 2; ++c) {
    const Tensor seen = cameras.project(points.select(1, c)).select(1, c);
    EXPECT_TRUE(close(seen.select(-1, 2), depth.select(1, c).flatten(1), 1e-12));
    const Tensor pixel = at::arange(24, at::kLong).to(at::kDouble).expand({2, 24});
    EXPECT_TRUE(close((seen.select(-1, 1) - 0.5).round() * 6 + (seen.select(-1, 0) - 0.5), pixel, 1e-10));
  }
}

TEST(Cameras, RaysGoThroughTheirPixels) {
  const auto [k, pose] = testing::two_cameras(2);
  const Cameras cameras(k, pose, 4, 6, at::kDouble);
  const Tensor pixels = at::randint(0, 24, {2, 2, 9}, at::kLong);
  const Rays rays = cameras.rays(pixels);
  EXPECT_TRUE(close(rays.directions.square().sum(-1), at::ones({2, 18}, at::kDouble), 1e-12));
  const Tensor points = cameras.unproject(at::ones({2, 2, 4, 6}, at::kDouble));
  const Tensor wanted = points.gather(2, pixels.unsqueeze(-1).expand({2, 2, 9, 3})).flatten(1, 2);
  const Tensor along = wanted - rays.origins;
  EXPECT_TRUE(close(along / along.square().sum(-1, true).sqrt(), rays.directions, 1e-12));
}

TEST(Cameras, CheckTheirArguments) {
  const auto [k, pose] = testing::two_cameras(2);
  EXPECT_ERROR(Cameras(k.to(at::kFloat), pose, 4, 4), "Cameras: intrinsics must be float64 [B, C, 3, 3]");
  EXPECT_ERROR(Cameras(k, pose.slice(0, 0, 1), 4, 4), "poses must be [2, 2, 4, 4]");
  EXPECT_ERROR(Cameras(k, pose, 4, 6).unproject(at::ones({2, 2, 6, 4})), "depth must be [2, 2, 4, 6]");
}

TEST(Subsample, TakesTheSmallestKeysOfValidPixels) {
  const Tensor keys = at::stack({subsample_keys(1, 0, 500), subsample_keys(1, 1, 500)});
  const Tensor valid = at::rand({2, 500}) < 0.6, chosen = subsample(keys, valid, 100);
  EXPECT_TRUE(valid.gather(1, chosen).all().item<bool>());
  for (int64_t b = 0; b < 2; ++b) {
    const Tensor known = keys[b].masked_select(valid[b]);
    EXPECT_TRUE(at::equal(keys[b].index_select(0, chosen[b]), std::get<0>(known.sort()).slice(0, 0, 100)));
  }
}

TEST(Subsample, RepeatsWherePixelsAreFew) {
  const Tensor keys = at::tensor({5, 3, 9, 1}, at::kInt).unsqueeze(0);
  const Tensor valid = at::tensor({1, 0, 1, 0}, at::kInt).to(at::kBool).unsqueeze(0);
  EXPECT_TRUE(at::equal(subsample(keys, valid, 5)[0], at::tensor({0, 2, 0, 2, 0}, at::kLong)));
  EXPECT_EQ(subsample(keys, at::zeros_like(valid), 3).sizes(), (std::vector<int64_t>{1, 3}));
}

TEST(Subsample, KeysAreUniformAndTheSameForAnyNumberOfThreads) {
  const Tensor keys = subsample_keys(7, 3, 100000);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  EXPECT_TRUE(at::equal(subsample_keys(7, 3, 100000), keys));
  at::set_num_threads(threads);
  EXPECT_FALSE(at::equal(subsample_keys(7, 4, 100000), keys));
  EXPECT_FALSE(at::equal(subsample_keys(8, 3, 100000), keys));
  const double mean = keys.to(at::kDouble).mean().item<double>() / 2147483648.0;
  EXPECT_NEAR(mean, 0.5, 5 * 0.2887 / std::sqrt(1e5));
  EXPECT_GE(keys.min().item<int>(), 0);
}

}  // namespace
}  // namespace topomask

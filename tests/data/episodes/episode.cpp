#include <gtest/gtest.h>

#include <functional>

#include "data/episodes/made_episode.h"
#include "support/compare.h"

namespace topomask::testing {
namespace {

TEST(Episode, IsCheckedTensorByTensor) {
  const auto refused = [](const std::function<void(Episode&)>& change, const std::string& expected) {
    Episode episode = made_episode(1);
    check_episode(episode);
    change(episode);
    EXPECT_ERROR(check_episode(episode), expected);
  };
  refused([](Episode& e) { e.interval = 0; }, "episode: interval must be > 0, got 0");
  refused([](Episode& e) { e.rgb = at::Tensor(); },
          "episode: rgb must be uint8 [T, C, H, W, 3] and not empty, got undefined");
  refused([](Episode& e) { e.rgb = e.rgb.to(at::kFloat); }, "episode: rgb must be Byte");
  refused([](Episode& e) { e.depth = e.depth.to(at::kDouble); }, "episode: depth must be Float");
  refused([](Episode& e) { e.depth[0][0][0][0] = -1; }, "episode: depth must be at least 0, got -1");
  refused([](Episode& e) { e.depth[0][0][0][0] = NAN; }, "episode: depth must be finite, got nan at [0, 0, 0, 0]");
  refused([](Episode& e) { e.ids[0][0][0][0] = 5; }, "episode: ids must be below 5 for 2 objects, got 5");
  refused([](Episode& e) { e.names.pop_back(); }, "episode: ");
  refused([](Episode& e) { e.actions = e.actions.narrow(1, 0, 7); }, "episode: actions must be Float");
  refused([](Episode& e) { e.bodies.narrow(2, 3, 4).mul_(2); }, "quaternions of length 1, got one off by 1");
  refused([](Episode& e) { e.intrinsics[1][0][0] = 0; }, "focal lengths > 0, got 0");
}

TEST(Unproject, FindsPointsThatTheCameraProjectedThere) {
  // A camera at (1, 2, 3) that looks along −x of the world, with its y axis down the world's z.
  const at::Tensor pose =
      at::tensor({0., 0., -1., 1., 1., 0., 0., 2., 0., -1., 0., 3., 0., 0., 0., 1.}, at::kDouble).reshape({1, 4, 4});
  const double focal = 40;
  const at::Tensor intrinsics = at::tensor({focal, 0., 4., 0., focal, 3., 0., 0., 1.}, at::kDouble).reshape({1, 3, 3});
  const at::Tensor depth = at::rand({5, 1, 6, 8}, at::kDouble) + 0.5;
  const at::Tensor points = unproject(depth, intrinsics, pose);
  ASSERT_EQ(points.sizes(), at::IntArrayRef({5, 1, 6, 8, 3}));
  for (int64_t v = 0; v < 6; ++v) {
    for (int64_t u = 0; u < 8; ++u) {
      const double z = depth[2][0][v][u].item<double>();
      const double right = (static_cast<double>(u) + .5 - 4) / focal * z,
                   down = (static_cast<double>(v) + .5 - 3) / focal * z;
      const at::Tensor wanted = at::tensor({1 - z, 2 + right, 3 - down}, at::kDouble);
      EXPECT_LT((points[2][0][v][u] - wanted).abs().max().item<double>(), 1e-12);
    }
  }
  EXPECT_EQ(unproject(depth.to(at::kFloat), intrinsics, pose).scalar_type(), at::kFloat);
  EXPECT_ERROR(unproject(depth, intrinsics[0], pose), "unproject: intrinsics must be [1, 3, 3], got");
  EXPECT_ERROR(unproject(depth, intrinsics, pose[0]), "unproject: poses must be [1, 4, 4], got");
  EXPECT_ERROR(unproject(depth[0][0], intrinsics, pose), "unproject: depth must be floating point [..., C, H, W], got");
}

TEST(MovedObjects, AreThoseThatShiftOrTurn) {
  Episode episode = made_episode(1, 2, 4, 4);
  episode.bodies[1].copy_(episode.bodies[0]);
  episode.bodies[1][0][2] += 0.02;
  episode.bodies[1][1][0] += 0.005;
  episode.bodies[1][2].narrow(0, 3, 4).neg_();  // the same orientation
  const double half = 0.2 / 2;
  episode.bodies[0][3].narrow(0, 3, 4).copy_(at::tensor({1., 0., 0., 0.}, at::kDouble));
  episode.bodies[1][3].narrow(0, 3, 4).copy_(at::tensor({std::cos(half), 0., std::sin(half), 0.}, at::kDouble));
  const at::Tensor moved = moved_objects(episode, 0, 1);
  EXPECT_TRUE(at::equal(moved, at::tensor({1, 0, 0, 1}).to(at::kBool)));
  const at::Tensor pixels = moved_pixels(episode, 0, 1);
  const at::Tensor ids = episode.ids[1];
  EXPECT_TRUE(at::equal(pixels, at::logical_or(ids == kFirstObject, ids == kFirstObject + 3)));
  EXPECT_ERROR(moved_objects(episode, 0, 2), "moved_objects: frames must be in [0, 2), got 2");
}

}  // namespace
}  // namespace topomask::testing

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "data/files.h"
#include "motion.h"
#include "objects.h"
#include "simulation.h"
#include "support/compare.h"

namespace topomask::robot {
namespace {

/// The first episode of a kind that is kept.
Episode first_kept(Kind kind, const Settings& settings) {
  for (uint32_t attempt = 0; attempt < 20; ++attempt) {
    Outcome outcome = simulate(kind, episode_seed(1, static_cast<int64_t>(kind), attempt), settings);
    if (outcome.dropped.empty()) return std::move(outcome.episode);
  }
  ADD_FAILURE() << "twenty episodes were dropped";
  return {};
}

class RobotEpisodes : public ::testing::TestWithParam<Kind> {
 protected:
  static void SetUpTestSuite() { static Display display; }
};

TEST_P(RobotEpisodes, ShowWhatTheirKindIsAbout) {
  const Episode episode = first_kept(GetParam(), {.side = 32});
  check_episode(episode);
  EXPECT_EQ(episode.frames(), 18);
  EXPECT_EQ(judge(GetParam(), episode), "");
  EXPECT_TRUE(moved_objects(episode, 0, 17).any().item<bool>() || GetParam() == Kind::lift);
  EXPECT_GT((episode.ids >= kFirstObject).sum().item<int64_t>(), 100);
  // The servos follow their targets by about .05 s; joints turn at up to 3 rad/s.
  EXPECT_LT((episode.joints - episode.actions).narrow(1, 0, 7).abs().max().item<float>(), .25F);
}

TEST_P(RobotEpisodes, AreTheSameForTheSameSeed) {
  const Settings settings{.side = 16, .frames = 6};
  const uint64_t seed = episode_seed(7, 0, 0);
  const Outcome a = simulate(GetParam(), seed, settings), b = simulate(GetParam(), seed, settings);
  ASSERT_EQ(a.dropped, b.dropped);
  EXPECT_TRUE(at::equal(a.episode.rgb, b.episode.rgb));
  EXPECT_TRUE(at::equal(a.episode.depth, b.episode.depth));
  EXPECT_TRUE(at::equal(a.episode.ids, b.episode.ids));
  EXPECT_TRUE(at::equal(a.episode.joints, b.episode.joints));
  EXPECT_TRUE(at::equal(a.episode.action_points, b.episode.action_points));
  EXPECT_TRUE(at::equal(a.episode.bodies, b.episode.bodies));
  const Outcome other = simulate(GetParam(), seed + 1, settings);
  EXPECT_FALSE(at::equal(a.episode.rgb, other.episode.rgb));
}

INSTANTIATE_TEST_SUITE_P(Kinds, RobotEpisodes, ::testing::Values(Kind::push, Kind::topple, Kind::lift, Kind::sweep),
                         [](const auto& info) { return kKindNames[static_cast<size_t>(info.param)]; });

TEST(RobotEpisode, HasDivergedWhereMuJoCoResetsAState) {
  for (const int which : {0, 1}) {
    Draws draws(13);
    const Model model = compile(Scene::draw(Kind::push, draws), {});
    const Data data(mj_makeData(model.get()));
    for (int i = 0; i < 10; ++i) mj_step(model.get(), data.get());
    ASSERT_FALSE(diverged(data.get()));
    (which == 0 ? data->qpos : data->qvel)[3] = which == 0 ? std::nan("") : 1e20;
    mj_step(model.get(), data.get());
    EXPECT_TRUE(diverged(data.get())) << which;
    EXPECT_TRUE(std::isfinite(data->qpos[3]));  // which is why the warnings have to be looked at
  }
}

/// An arm whose joints are pushed away from where they should be.
TEST(RobotEpisode, IsDroppedWhereTheSimulationDiverges) {
  const std::string packed = TOPOMASK_DATA_DIR "/kuka/kuka_meshes_urdf.tar.xz";
  if (!std::filesystem::exists(packed)) GTEST_SKIP() << "there is no " << packed;
  static Display display;
  const topomask::testing::TemporaryFolder folder;
  ASSERT_EQ(std::system(("tar -xJf '" + packed + "' -C '" + (folder / "") + "'").c_str()), 0);
  const std::string arm = folder / "menagerie_kuka_iiwa_14/kuka_iiwa_14", stable = "biasprm=\"0 -2000 -200\"";
  std::string model = topomask::testing::read_file(arm + "/iiwa14.xml");
  const size_t place = model.find(stable);
  ASSERT_NE(place, std::string::npos);
  model.replace(place, stable.size(), "biasprm=\"0 2000 0\"");
  topomask::testing::write_file(arm + "/iiwa14.xml", model);
  EXPECT_EQ(simulate(Kind::push, episode_seed(1, 0, 0), {.arm = arm, .side = 16, .frames = 4}).dropped, "diverged");
}

/// MuJoCo Menagerie's kuka_iiwa_14, unpacked.
TEST(RobotEpisode, ShowsTheRealArmWhereItsMeshesAre) {
  const std::string packed = TOPOMASK_DATA_DIR "/kuka/kuka_meshes_urdf.tar.xz";
  if (!std::filesystem::exists(packed)) GTEST_SKIP() << "there is no " << packed;
  static Display display;
  const topomask::testing::TemporaryFolder folder;
  ASSERT_EQ(std::system(("tar -xJf '" + packed + "' -C '" + (folder / "") + "'").c_str()), 0);
  const std::string arm = folder / "menagerie_kuka_iiwa_14/kuka_iiwa_14";
  const Episode real = first_kept(Kind::push, {.arm = arm, .side = 32});
  check_episode(real);
  EXPECT_EQ(judge(Kind::push, real), "");
  EXPECT_GT((real.ids == kRobot).sum().item<int64_t>(), 100);
  const Episode built_in = first_kept(Kind::push, {.side = 32});
  EXPECT_EQ(real.action_points.sizes(), built_in.action_points.sizes());
  EXPECT_FALSE(at::equal(real.rgb, built_in.rgb));
}

TEST(RobotArm, ReachesPosesWithinItsRange) {
  Draws draws(11);
  const Model model = compile(Scene::draw(Kind::push, draws), {});
  const ArmMap arm(model.get());
  const Data data(mj_makeData(model.get()));
  const int tip = mj_name2id(model.get(), mjOBJ_SITE, "arm/tool/tip");
  for (int i = 0; i < 20; ++i) {
    const ToolPose pose{{draws.uniform(kNear, kFar), draws.uniform(-kAside, kAside), draws.uniform(.04, .25)},
                        draws.uniform(-1.5, 1.5)};
    double error = 1;
    arm.set_state(data.get(), arm.reach(pose, ArmMap::home(), 300, &error), 0);
    mj_kinematics(model.get(), data.get());
    EXPECT_LT(error, 1e-3);
    EXPECT_LT(mju_dist3(data->site_xpos + 3 * tip, pose.tip.data()), 1e-3);
    const mjtNum* const axes = data->site_xmat + 9 * tip;
    EXPECT_NEAR(axes[8], -1, 1e-3);  // points down
    EXPECT_NEAR(axes[0], std::cos(pose.yaw), 2e-2);
    EXPECT_NEAR(axes[3], std::sin(pose.yaw), 2e-2);
  }
}

TEST(RobotArm, HasPointsThatMoveWithIt) {
  Draws draws(12);
  const Model model = compile(Scene::draw(Kind::lift, draws), {});
  const ArmMap arm(model.get());
  const auto before = arm.points(ArmMap::home(), 0), open = arm.points(ArmMap::home(), .05);
  ASSERT_EQ(before.size(), static_cast<size_t>(ArmMap::kToolPoints + ArmMap::kLinkPoints));
  Joints turned = ArmMap::home();
  turned[0] += .3;
  const auto after = arm.points(turned, 0);
  int on_fingers = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    // The first joint turns everything about the vertical through the origin.
    const double c = std::cos(.3), s = std::sin(.3);
    EXPECT_NEAR(after[i][0], c * before[i][0] - s * before[i][1], 5e-5);
    EXPECT_NEAR(after[i][1], s * before[i][0] + c * before[i][1], 5e-5);
    EXPECT_NEAR(after[i][2], before[i][2], 5e-5);
    on_fingers += std::abs(open[i][0] - before[i][0]) + std::abs(open[i][1] - before[i][1]) > .04;
  }
  EXPECT_GE(on_fingers, 6);
}

TEST(RobotArm, IsRefusedWhereItsFolderHasNone) {
  EXPECT_ERROR(make_arm("/nowhere", Tool::paddle, .05), "the arm must be 'builtin' or a folder with iiwa14.xml");
}

}  // namespace
}  // namespace topomask::robot

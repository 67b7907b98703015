#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "renderer.h"
#include "scene.h"
#include "topomask/data/episodes.h"

namespace topomask::robot {
namespace {

Display& display() {
  static Display display;
  return display;
}

/// A scene at rest in the home posture.
struct Still {
  explicit Still(Kind kind, uint64_t seed, int64_t side) {
    display();
    Draws draws(seed);
    scene = Scene::draw(kind, draws);
    model = compile(scene, {.side = side});
    data.reset(mj_makeData(model.get()));
    ArmMap(model.get()).set_state(data.get(), ArmMap::home(), 0);
    mj_forward(model.get(), data.get());
  }
  Scene scene;
  Model model;
  Data data;
};

TEST(RobotCameras, MeasureWhatRaysMeasure) {
  constexpr int64_t kSide = 64;
  const Still still(Kind::lift, 3, kSide);
  const ArmMap arm(still.model.get());
  Cameras cameras(still.model.get(), arm, kSide, false);
  ASSERT_EQ(cameras.count(), 2);
  for (int camera = 0; camera < 2; ++camera) {
    at::Tensor rgb = at::empty({kSide, kSide, 3}, at::kByte), depth = at::empty({1, kSide, kSide}, at::kFloat);
    at::Tensor ids = at::empty({kSide, kSide}, at::kByte), intrinsics = at::empty({1, 3, 3}, at::kDouble);
    at::Tensor pose = at::empty({1, 4, 4}, at::kDouble);
    cameras.look(still.data.get(), camera, rgb.mutable_data_ptr<uint8_t>(), depth.mutable_data_ptr<float>(),
                 ids.mutable_data_ptr<uint8_t>());
    cameras.intrinsics(camera, intrinsics.mutable_data_ptr<double>());
    cameras.pose(still.data.get(), camera, pose.mutable_data_ptr<double>());
    const at::Tensor points = unproject(depth.to(at::kDouble), intrinsics, pose)[0];
    const mjtNum* const eye = still.data->cam_xpos + 3 * camera;
    int agree = 0, looked = 0, of_objects = 0;
    for (int64_t row = 0; row < kSide; ++row) {
      for (int64_t column = 0; column < kSide; ++column) {
        // The same pixel by a ray through the point that was seen: distance, and what is hit.
        mjtNum ray[3];
        mju_sub3(ray, points[row][column].const_data_ptr<double>(), eye);
        const double seen = mju_normalize3(ray);
        const mjtByte groups[mjNGROUP] = {1, 1, 1, 0, 0, 0};
        int geom = -1;
        const double hit = mj_ray(still.model.get(), still.data.get(), eye, ray, groups, 1, -1, &geom, nullptr);
        ASSERT_GE(geom, 0);
        const int id = ids[row][column].item<int>();
        const int object = object_number(mj_id2name(still.model.get(), mjOBJ_BODY, still.model->geom_bodyid[geom]));
        const int wanted = object >= 0                                     ? static_cast<int>(kFirstObject) + object
                           : arm.owns_body(still.model->geom_bodyid[geom]) ? static_cast<int>(kRobot)
                                                                           : static_cast<int>(kTable);
        ++looked;
        of_objects += id >= kFirstObject;
        agree += std::abs(hit - seen) < 1e-4 && id == wanted;
      }
    }
    // Round shapes are drawn as polygons, so that a few pixels at outlines differ.
    EXPECT_GT(agree, looked * 93 / 100) << "camera " << camera;
    EXPECT_GT(of_objects, 40) << "camera " << camera;
  }
}

TEST(RobotCameras, SeeTheTableWhereItIs) {
  const Still still(Kind::sweep, 5, 32);
  const ArmMap arm(still.model.get());
  Cameras cameras(still.model.get(), arm, 32, false);
  at::Tensor rgb = at::empty({32, 32, 3}, at::kByte), depth = at::empty({1, 32, 32}, at::kFloat);
  at::Tensor ids = at::empty({32, 32}, at::kByte), intrinsics = at::empty({1, 3, 3}, at::kDouble);
  at::Tensor pose = at::empty({1, 4, 4}, at::kDouble);
  cameras.look(still.data.get(), 1, rgb.mutable_data_ptr<uint8_t>(), depth.mutable_data_ptr<float>(),
               ids.mutable_data_ptr<uint8_t>());
  cameras.intrinsics(1, intrinsics.mutable_data_ptr<double>());
  cameras.pose(still.data.get(), 1, pose.mutable_data_ptr<double>());
  EXPECT_EQ((ids == kBackground).sum().item<int64_t>(), 0);
  EXPECT_GT(depth.min().item<float>(), 0);
  const at::Tensor height =
      unproject(depth.to(at::kDouble), intrinsics, pose)[0].select(2, 2).masked_select(ids == kTable);
  EXPECT_LT(height.abs().max().item<double>(), 1e-4);
}

}  // namespace
}  // namespace topomask::robot

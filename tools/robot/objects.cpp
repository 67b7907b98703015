#include "objects.h"

#include <ATen/ATen.h>

#include <cmath>

#include "simulation.h"

namespace topomask::robot {

Objects::Objects(const mjModel* model, const Scene& scene) : model_(model), parts_(scene.objects.size()) {
  for (size_t i = 0; i < parts_.size(); ++i) {
    const std::string name = "object" + std::to_string(i);
    const Object& object = scene.objects[i];
    if (object.shape == Shape::soft) {
      parts_[i].flex = mj_name2id(model, mjOBJ_FLEX, name.c_str());
    } else {
      parts_[i].body = mj_name2id(model, mjOBJ_BODY, name.c_str());
    }
    TORCH_INTERNAL_ASSERT(parts_[i].flex >= 0 || parts_[i].body >= 0);
    placed_.push_back({object.x, object.y, object.half[2], object.yaw});
  }
}

void Objects::pose(const mjData* data, const Part& part, mjtNum* position, mjtNum* quaternion) const {
  if (part.body >= 0) {
    mju_copy3(position, data->xpos + 3 * part.body);
    mju_copy4(quaternion, data->xquat + 4 * part.body);
    return;
  }
  const int first = model_->flex_vertadr[part.flex], count = model_->flex_vertnum[part.flex];
  const auto options = at::TensorOptions(at::kDouble);
  const at::Tensor now = at::from_blob(data->flexvert_xpos + 3 * first, {count, 3}, options);
  const at::Tensor rest = at::from_blob(model_->flex_vert0 + 3 * first, {count, 3}, options);
  const at::Tensor centre = now.mean(0);
  const auto [u, s, v] = at::linalg_svd(at::matmul((now - centre).t(), rest - rest.mean(0)));
  at::Tensor sign = at::ones({3}, options);
  sign[2] = at::linalg_det(at::matmul(u, v));  // a rotation, never a reflection
  const at::Tensor rotation = at::matmul(u * sign, v).contiguous();
  mju_copy3(position, centre.const_data_ptr<double>());
  mju_mat2Quat(quaternion, rotation.const_data_ptr<double>());
}

std::vector<ObjectState> Objects::states(const mjData* data) const {
  std::vector<ObjectState> states;
  for (const Part& part : parts_) {
    mjtNum position[3], quaternion[4], matrix[9];
    pose(data, part, position, quaternion);
    mju_quat2Mat(matrix, quaternion);
    states.push_back({position[0], position[1], position[2], std::atan2(matrix[3], matrix[0])});
  }
  return states;
}

void Objects::write(const mjData* data, double* bodies) const {
  for (const Part& part : parts_) {
    pose(data, part, bodies, bodies + 3);
    mju_normalize4(bodies + 3);
    bodies += 7;
  }
}

std::string judge(Kind kind, const Episode& episode) {
  constexpr double kMoved = .02, kTilt = mjPI / 4, kRisen = .05;
  const at::Tensor position = episode.bodies.narrow(2, 0, 3);
  const int64_t frames = episode.frames();
  const at::Tensor steps = (position.narrow(0, 1, frames - 1) - position.narrow(0, 0, frames - 1)).norm(2, -1);
  if (steps.max().item<double>() > kLongestStep) return "fast";
  const at::Tensor shift = (position - position[0]).norm(2, -1);
  if (shift.max().item<double>() < kMoved) return "still";
  if (kind == Kind::topple) {
    // The third column of the rotation matrix is the object's axis: its height is the cosine of the tilt.
    const at::Tensor x = episode.bodies.select(2, 4), y = episode.bodies.select(2, 5);
    const at::Tensor upright = 1 - 2 * (x * x + y * y);
    if (upright.min().item<double>() > std::cos(kTilt)) return "still";
  }
  if (kind == Kind::lift) {
    const at::Tensor height = position.select(2, 2);
    if ((height - height[0]).max().item<double>() < kRisen) return "still";
  }
  return "";
}

}  // namespace topomask::robot

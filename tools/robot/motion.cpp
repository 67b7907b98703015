#include "motion.h"

#include <c10/util/Exception.h>

#include <cmath>
#include <string>

namespace topomask::robot {
namespace {

constexpr double kDamping = 1e-4, kPosture = .05, kMargin = .02, kLargestTurn = .2;

int find(const mjModel* model, mjtObj type, const std::string& name) {
  const int id = mj_name2id(model, type, name.c_str());
  TORCH_CHECK(id >= 0, "robot data: the arm must have ", mju_type2Str(type), " ", name);
  return id;
}

/// How far the tool is from its pose: a vector to move along, and one to turn about.
void pose_error(const mjData* data, int tip, const ToolPose& pose, mjtNum* error) {
  mju_sub3(error, pose.tip.data(), data->site_xpos + 3 * tip);
  const mjtNum c = std::cos(pose.yaw), s = std::sin(pose.yaw);
  const mjtNum wanted[3][3] = {{c, s, 0}, {s, -c, 0}, {0, 0, -1}};  // axes of the tool in the world; z points down
  const mjtNum* const matrix = data->site_xmat + 9 * tip;
  mju_zero3(error + 3);
  for (int axis = 0; axis < 3; ++axis) {
    const mjtNum is[3] = {matrix[axis], matrix[3 + axis], matrix[6 + axis]};
    mjtNum turn[3];
    mju_cross(turn, is, wanted[axis]);
    mju_addToScl3(error + 3, turn, .5);
  }
  const mjtNum size = mju_norm3(error + 3);
  if (size > kLargestTurn) mju_scl3(error + 3, error + 3, kLargestTurn / size);
}

}  // namespace

ArmMap::ArmMap(const mjModel* model) : model_(model), scratch_(mj_makeData(model)) {
  tip_ = find(model, mjOBJ_SITE, "arm/tool/tip");
  for (int i = 0; i < kArmJoints; ++i) {
    const auto at = static_cast<size_t>(i);
    joints_[at] = find(model, mjOBJ_JOINT, "arm/joint" + std::to_string(i + 1));
    servos_[at] = find(model, mjOBJ_ACTUATOR, "arm/actuator" + std::to_string(i + 1));
  }
  if (mj_name2id(model, mjOBJ_JOINT, "arm/tool/left") >= 0) {
    fingers_ = {find(model, mjOBJ_JOINT, "arm/tool/left"), find(model, mjOBJ_JOINT, "arm/tool/right")};
    finger_servos_ = {find(model, mjOBJ_ACTUATOR, "arm/tool/left"), find(model, mjOBJ_ACTUATOR, "arm/tool/right")};
  }
  const int base = find(model, mjOBJ_BODY, "arm/base");
  owned_.resize(static_cast<size_t>(model->nbody));
  for (int body = 1; body < model->nbody; ++body) {  // parents come first
    owned_[static_cast<size_t>(body)] = body == base || owned_[static_cast<size_t>(model->body_parentid[body])];
  }
  choose_points();
}

Joints ArmMap::reach(const ToolPose& pose, Joints from, int iterations, double* error) const {
  mjData* const data = scratch_.get();
  std::vector<mjtNum> across(3 * static_cast<size_t>(model_->nv)), about(across.size());
  mjtNum e[6] = {};
  for (int iteration = 0; iteration < iterations; ++iteration) {
    set_state(data, from, 0);
    mj_kinematics(model_, data);
    mj_comPos(model_, data);
    pose_error(data, tip_, pose, e);
    // The seventh degree of freedom goes to the posture first; what that leaves of the error is made good after.
    const double bias = 2 * iteration < iterations ? kPosture : 0;
    if (bias == 0 && mju_norm(e, 6) < 1e-6) break;
    mj_jacSite(model_, data, across.data(), about.data(), tip_);
    mjtNum jacobian[6 * kArmJoints], gram[36], posture[kArmJoints], along[6], y[6], step[kArmJoints];
    for (int c = 0; c < kArmJoints; ++c) {
      const int dof = model_->jnt_dofadr[joints_[static_cast<size_t>(c)]];
      for (int r = 0; r < 3; ++r) {
        jacobian[r * kArmJoints + c] = across[static_cast<size_t>(r * model_->nv + dof)];
        jacobian[(r + 3) * kArmJoints + c] = about[static_cast<size_t>(r * model_->nv + dof)];
      }
      // Near the home posture, but for the flange, which yaw needs.
      posture[c] = c + 1 < kArmJoints ? bias * (home()[static_cast<size_t>(c)] - from[static_cast<size_t>(c)]) : 0;
    }
    mju_mulMatMatT(gram, jacobian, jacobian, 6, kArmJoints, 6);
    for (int k = 0; k < 6; ++k) gram[7 * k] += kDamping;
    mju_cholFactor(gram, 6, 1e-12);
    mju_mulMatVec(along, jacobian, posture, 6, kArmJoints);
    mju_sub(along, e, along, 6);
    mju_cholSolve(y, gram, along, 6);
    mju_mulMatTVec(step, jacobian, y, 6, kArmJoints);
    for (int c = 0; c < kArmJoints; ++c) {
      const mjtNum* const range = model_->jnt_range + 2 * joints_[static_cast<size_t>(c)];
      double& joint = from[static_cast<size_t>(c)];
      joint = mju_clip(joint + step[c] + posture[c], range[0] + kMargin, range[1] - kMargin);
    }
  }
  if (error) *error = mju_norm3(e);
  return from;
}

void ArmMap::set_state(mjData* data, const Joints& joints, double opening) const {
  for (size_t i = 0; i < joints.size(); ++i) data->qpos[model_->jnt_qposadr[joints_[i]]] = joints[i];
  if (!has_gripper()) return;
  for (const int finger : fingers_) data->qpos[model_->jnt_qposadr[finger]] = opening;
}

void ArmMap::set_targets(mjData* data, const Joints& joints, double opening) const {
  for (size_t i = 0; i < joints.size(); ++i) data->ctrl[servos_[i]] = joints[i];
  if (!has_gripper()) return;
  for (const int servo : finger_servos_) data->ctrl[servo] = opening;
}

Joints ArmMap::joints(const mjData* data) const {
  Joints joints{};
  for (size_t i = 0; i < joints.size(); ++i) joints[i] = data->qpos[model_->jnt_qposadr[joints_[i]]];
  return joints;
}

double ArmMap::opening(const mjData* data) const {
  if (!has_gripper()) return 0;
  return (data->qpos[model_->jnt_qposadr[fingers_[0]]] + data->qpos[model_->jnt_qposadr[fingers_[1]]]) / 2;
}

std::vector<std::array<float, 3>> ArmMap::points(const Joints& joints, double opening) const {
  set_state(scratch_.get(), joints, opening);
  mj_kinematics(model_, scratch_.get());
  std::vector<std::array<float, 3>> result;
  for (const Point& point : points_) {
    mjtNum place[3];
    mju_mulMatVec3(place, scratch_->xmat + 9 * point.body, point.position.data());
    mju_addTo3(place, scratch_->xpos + 3 * point.body);
    // To 15 µm, which leaves bits that do not compress out of the files.
    const auto rounded = [](mjtNum x) { return static_cast<float>(std::round(x * 0x1p16) * 0x1p-16); };
    result.push_back({rounded(place[0]), rounded(place[1]), rounded(place[2])});
  }
  return result;
}

}  // namespace topomask::robot

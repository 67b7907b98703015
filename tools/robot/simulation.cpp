#include "simulation.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "objects.h"
#include "plan.h"

namespace topomask::robot {
namespace {

constexpr double kControlStep = .05;  // seconds between solutions of the inverse kinematics
constexpr double kSettle = .4, kReachable = .006;

/// Moves along the plans of an episode; the tool's pose and opening are linear between waypoints.
class Trajectory {
 public:
  Trajectory(const Scene& scene, Draws& draws) : scene_(scene), draws_(draws) {}

  /// The next `seconds`, with a new plan where the last one ends.
  Waypoint advance(double seconds, const std::vector<ObjectState>& objects) {
    while (true) {
      if (next_ >= points_.size()) extend(objects);
      const Waypoint& goal = points_[next_];
      const double left = goal.seconds - elapsed_;
      if (left > seconds) {
        elapsed_ += seconds;
        return between(goal, elapsed_ / goal.seconds);
      }
      seconds -= left;
      current_ = goal;
      elapsed_ = 0;
      ++next_;
      if (seconds <= 1e-9) return current_;
    }
  }

  Waypoint start(const std::vector<ObjectState>& objects) {
    points_ = plan(scene_, objects, round_++, draws_);
    current_ = points_[0];
    // Not always right above: the first frames show how the arm comes near.
    for (const int axis : {0, 1}) current_.pose.tip[static_cast<size_t>(axis)] += draws_.uniform(-.06, .06);
    current_.pose.tip[0] = std::clamp(current_.pose.tip[0], kNear, kFar);
    current_.pose.tip[2] += draws_.uniform(0, .03);
    points_[0].seconds = travel_time(current_.pose, points_[0].pose, .35);
    return current_;
  }

 private:
  void extend(const std::vector<ObjectState>& objects) {
    points_ = plan(scene_, objects, round_++, draws_);
    points_[0].seconds = travel_time(current_.pose, points_[0].pose, .35);
    next_ = 0;
  }

  Waypoint between(const Waypoint& goal, double part) const {
    Waypoint result = goal;
    for (size_t k = 0; k < 3; ++k) {
      result.pose.tip[k] = current_.pose.tip[k] + part * (goal.pose.tip[k] - current_.pose.tip[k]);
    }
    result.pose.yaw = current_.pose.yaw + part * (goal.pose.yaw - current_.pose.yaw);
    result.opening = current_.opening + part * (goal.opening - current_.opening);
    return result;
  }

  const Scene& scene_;
  Draws& draws_;
  std::vector<Waypoint> points_;
  size_t next_ = 0;
  Waypoint current_;
  double elapsed_ = 0;
  int64_t round_ = 0;
};

/// A scene that runs: simulates, and writes the frames of an episode.
class Run {
 public:
  Run(const Scene& scene, const Settings& settings)
      : settings_(settings),
        model_(compile(scene, settings)),
        data_(mj_makeData(model_.get())),
        arm_(model_.get()),
        objects_(model_.get(), scene),
        cameras_(model_.get(), arm_, settings.side, settings.shadows) {}

  std::string play(const Scene& scene, Draws& draws, Episode& episode) {
    allocate(scene, episode);
    Trajectory trajectory(scene, draws);
    Waypoint now = trajectory.start(objects_.placed());
    target_ = arm_.reach(now.pose, ArmMap::home(), 300, &error_);
    if (error_ > kReachable) return "unreachable";
    arm_.set_state(data_.get(), target_, now.opening);
    hold(now, kSettle);
    for (int64_t frame = 0; frame < settings_.frames; ++frame) {
      if (frame > 0) {
        const auto steps = std::max<int64_t>(1, std::llround(settings_.interval / kControlStep));
        const double seconds = settings_.interval / static_cast<double>(steps);
        for (int64_t i = 0; i < steps; ++i) {
          now = trajectory.advance(seconds, objects_.states(data_.get()));
          follow(now, seconds);
        }
      }
      if (diverged(data_.get())) return "diverged";
      if (error_ > kReachable) return "unreachable";
      record(frame, now.opening, episode);
    }
    return "";
  }

 private:
  void allocate(const Scene& scene, Episode& e) const {
    const int64_t t = settings_.frames, c = cameras_.count(), s = settings_.side;
    const int64_t p = ArmMap::kToolPoints + ArmMap::kLinkPoints;
    for (const Object& object : scene.objects) e.names.push_back(object.name);
    e.rgb = at::empty({t, c, s, s, 3}, at::kByte);
    e.depth = at::empty({t, c, s, s}, at::kFloat);
    e.ids = at::empty({t, c, s, s}, at::kByte);
    e.intrinsics = at::empty({c, 3, 3}, at::kDouble);
    e.poses = at::empty({c, 4, 4}, at::kDouble);
    e.joints = at::empty({t, kArmJoints + 1}, at::kFloat);
    e.actions = at::empty({t, kArmJoints + 1}, at::kFloat);
    e.action_points = at::empty({t, p, 3}, at::kFloat);
    e.bodies = at::empty({t, std::ssize(scene.objects), 7}, at::kDouble);
  }

  void hold(const Waypoint& pose, double seconds) {
    arm_.set_targets(data_.get(), target_, pose.opening);
    const auto steps = std::llround(seconds / model_->opt.timestep);
    for (int64_t i = 0; i < steps; ++i) mj_step(model_.get(), data_.get());
    mj_forward(model_.get(), data_.get());
  }

  /// Joint targets go from the last solution to the next in equal steps of the simulation.
  void follow(const Waypoint& goal, double seconds) {
    double error = 0;
    const Joints from = target_;
    target_ = arm_.reach(goal.pose, from, 20, &error);
    error_ = std::max(error_, error);
    const auto steps = std::max<int64_t>(1, std::llround(seconds / model_->opt.timestep));
    for (int64_t i = 0; i < steps; ++i) {
      Joints joints = target_;
      const double part = static_cast<double>(i + 1) / static_cast<double>(steps);
      for (size_t k = 0; k < joints.size(); ++k) joints[k] = from[k] + part * (target_[k] - from[k]);
      arm_.set_targets(data_.get(), joints, goal.opening);
      mj_step(model_.get(), data_.get());
    }
  }

  void record(int64_t frame, double opening, Episode& e) {
    mj_forward(model_.get(), data_.get());
    const double is_open = arm_.has_gripper() ? opening : 0;
    for (int camera = 0; camera < cameras_.count(); ++camera) {
      cameras_.look(data_.get(), camera, e.rgb[frame][camera].mutable_data_ptr<uint8_t>(),
                    e.depth[frame][camera].mutable_data_ptr<float>(), e.ids[frame][camera].mutable_data_ptr<uint8_t>());
      cameras_.intrinsics(camera, e.intrinsics[camera].mutable_data_ptr<double>());
      cameras_.pose(data_.get(), camera, e.poses[camera].mutable_data_ptr<double>());
    }
    const Joints measured = arm_.joints(data_.get());
    float* const joints = e.joints[frame].mutable_data_ptr<float>();
    float* const actions = e.actions[frame].mutable_data_ptr<float>();
    for (size_t k = 0; k < measured.size(); ++k) {
      joints[k] = static_cast<float>(measured[k]);
      actions[k] = static_cast<float>(target_[k]);
    }
    joints[kArmJoints] = static_cast<float>(arm_.opening(data_.get()));
    actions[kArmJoints] = static_cast<float>(is_open);
    const auto points = arm_.points(target_, is_open);
    std::copy_n(points[0].data(), 3 * points.size(), e.action_points[frame].mutable_data_ptr<float>());
    objects_.write(data_.get(), e.bodies[frame].mutable_data_ptr<double>());
  }

  Settings settings_;
  Model model_;
  Data data_;
  ArmMap arm_;
  Objects objects_;
  Cameras cameras_;
  Joints target_{};
  double error_ = 0;
};

}  // namespace

bool diverged(const mjData* data) {
  for (const int warning : {mjWARN_BADQPOS, mjWARN_BADQVEL, mjWARN_BADQACC}) {
    if (data->warning[warning].number > 0) return true;
  }
  return false;
}

Outcome simulate(Kind kind, uint64_t seed, const Settings& settings) {
  Draws draws(seed);
  const Scene scene = Scene::draw(kind, draws);
  Outcome outcome{
      .episode = {.kind = kKindNames[static_cast<size_t>(kind)], .seed = seed, .interval = settings.interval}};
  if (scene.objects.empty()) return {.dropped = "still"};
  Run run(scene, settings);
  outcome.dropped = run.play(scene, draws, outcome.episode);
  if (outcome.dropped.empty()) outcome.dropped = judge(kind, outcome.episode);
  return outcome;
}

}  // namespace topomask::robot

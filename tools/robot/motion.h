#pragma once

#include <array>
#include <vector>

#include "arm.h"
#include "handles.h"

namespace topomask::robot {

using Joints = std::array<double, kArmJoints>;

/// Where the tool is to be: its tip, pointing down and turned about the vertical so that its x axis points along `yaw`.
struct ToolPose {
  std::array<double, 3> tip{};
  double yaw = 0;
};

/// The arm in a compiled scene: which joints, servos and bodies are its own, and its kinematics.
class ArmMap {
 public:
  explicit ArmMap(const mjModel* model);

  bool has_gripper() const { return finger_servos_[0] >= 0; }
  bool owns_body(int body) const { return owned_[static_cast<size_t>(body)]; }

  /// Joints that bring the tool as near to `pose` as the joints' ranges allow, from joints nearby; damped least
  /// squares. `error` becomes the distance that is left, metres.
  Joints reach(const ToolPose& pose, Joints from, int iterations, double* error = nullptr) const;

  void set_state(mjData* data, const Joints& joints, double opening) const;    ///< positions
  void set_targets(mjData* data, const Joints& joints, double opening) const;  ///< of the servos
  Joints joints(const mjData* data) const;
  double opening(const mjData* data) const;  ///< of each finger from the middle, metres; 0 without a gripper

  /// Points fixed to the moving links and to the tool, spread over their surfaces, where these joints put them. They
  /// are the same points for every scene with the same arm and tool.
  std::vector<std::array<float, 3>> points(const Joints& joints, double opening) const;
  static constexpr int kToolPoints = 32, kLinkPoints = 32;

  static Joints home() { return {0, .6, 0, -1.6, 0, .95, 0}; }

 private:
  struct Point {
    int body;
    std::array<double, 3> position;  ///< in the body's frame
  };
  void choose_points();

  const mjModel* model_;
  mutable Data scratch_;
  int tip_ = -1;
  std::array<int, kArmJoints> joints_{}, servos_{};
  std::array<int, 2> fingers_{-1, -1}, finger_servos_{-1, -1};
  std::vector<bool> owned_;
  std::vector<Point> points_;
};

}  // namespace topomask::robot

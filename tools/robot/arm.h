#pragma once

#include <string>

#include "handles.h"

namespace topomask::robot {

inline constexpr int kArmJoints = 7;

enum class Tool { paddle, gripper };

/// A KUKA LBR iiwa 14 with a tool at its flange, to be attached to a scene: bodies base, link1 … link7, tool/tool;
/// joints joint1 … joint7 with position servos actuator1 … actuator7; a site tool/tip, which is the middle of the
/// paddle or the point between the gripper's fingers, with z pointing out of the flange. The gripper has two fingers
/// along y, with joints and servos tool/left and tool/right; the paddle's face looks along x. Weight is compensated, as
/// the real arm's controller does.
///
/// `arm` is "builtin", an arm of capsules with the same joints, or a folder with iiwa14.xml and its meshes.
/// `half_width` is that of the paddle, metres.
Spec make_arm(const std::string& arm, Tool tool, double half_width);

}  // namespace topomask::robot

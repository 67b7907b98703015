#pragma once

#include <vector>

#include "motion.h"
#include "scene.h"

namespace topomask::robot {

/// The tool is to be at a pose, its fingers at an opening, some seconds after the waypoint before.
struct Waypoint {
  ToolPose pose;
  double opening = 0;
  double seconds = 0;
};

/// Where the objects are now, for the planner; half heights are those of their upright form.
struct ObjectState {
  double x = 0, y = 0, z = 0, yaw = 0;
};

/// What the arm does next: push an object, tip one over, lift one and put it down or let it fall, sweep the table. The
/// first waypoint is where the motion starts, above the table. `round` counts the plans of an episode from 0.
std::vector<Waypoint> plan(const Scene& scene, const std::vector<ObjectState>& states, int64_t round, Draws& draws);

/// Seconds from pose to pose at this speed, m/s; turning takes its time as well.
double travel_time(const ToolPose& from, const ToolPose& to, double speed);

}  // namespace topomask::robot

#include "plan.h"

#include <algorithm>
#include <cmath>

namespace topomask::robot {
namespace {

constexpr double kAbove = .2;        // where the tool travels
constexpr double kPaddleLow = .042;  // the paddle's lower edge is 7 mm above the table
constexpr double kOpen = .05, kShut = 0;
constexpr double kTravelSpeed = .35, kDownSpeed = .3;
constexpr int kDirections = 60;

/// A sequence that keeps track of where it is.
class Path {
 public:
  void start(const ToolPose& pose, double opening) { add(pose, opening, 0); }
  void move(double x, double y, double z, double yaw, double speed) {
    ToolPose pose{{std::clamp(x, kNear, kFar + .04), std::clamp(y, -kAside - .05, kAside + .05), z}, yaw};
    add(pose, points_.back().opening, travel_time(points_.back().pose, pose, speed));
  }
  void raise(double z, double speed) {
    const ToolPose pose = points_.back().pose;
    move(pose.tip[0], pose.tip[1], z, pose.yaw, speed);
  }
  void grip(double opening, double seconds) { add(points_.back().pose, opening, seconds); }
  std::vector<Waypoint> points() && { return std::move(points_); }

 private:
  void add(const ToolPose& pose, double opening, double seconds) { points_.push_back({pose, opening, seconds}); }
  std::vector<Waypoint> points_;
};

bool inside(double x, double y) {
  return x > kNear && x < kFar + .04 && std::abs(y) < kAside + .05;
}

/// Whether a paddle that comes down there would hit an object.
bool is_free(const Scene& scene, const std::vector<ObjectState>& states, double x, double y, double room) {
  for (size_t i = 0; i < states.size(); ++i) {
    if (std::hypot(states[i].x - x, states[i].y - y) < scene.objects[i].radius() + room) return false;
  }
  return true;
}

/// A paddle looks the same from both sides: the angle of the two with which the flange turns less.
double paddle_yaw(double direction) {
  const double half_turns = std::round(direction / mjPI);
  return direction - half_turns * mjPI;
}

/// Through an object from behind it, in a direction with room for the start and the end. Pushed at height z.
std::vector<Waypoint> push(const Scene& scene, const std::vector<ObjectState>& states, size_t target, double z,
                           double length, double speed, Draws& draws) {
  const ObjectState& object = states[target];
  const double behind = scene.objects[target].radius() + .035;
  double direction = 0;
  for (int attempt = 0; attempt < kDirections; ++attempt) {
    direction = draws.uniform(-mjPI, mjPI);
    const double x = object.x - behind * std::cos(direction), y = object.y - behind * std::sin(direction);
    const bool ends_inside = inside(object.x + length * std::cos(direction), object.y + length * std::sin(direction));
    if (inside(x, y) && ends_inside && is_free(scene, states, x, y, scene.paddle_half_width * .8)) break;
  }
  const double c = std::cos(direction), s = std::sin(direction), yaw = paddle_yaw(direction);
  const double x = object.x - behind * c, y = object.y - behind * s;
  Path path;
  path.start({{std::clamp(x, kNear, kFar + .04), std::clamp(y, -kAside - .05, kAside + .05), kAbove + z}, yaw}, 0);
  path.move(x, y, z, yaw, kDownSpeed);
  path.move(object.x + length * c, object.y + length * s, z, yaw, speed);
  path.raise(kAbove + z, kDownSpeed);
  return std::move(path).points();
}

std::vector<Waypoint> sweep(const Scene& scene, const std::vector<ObjectState>& states, Draws& draws) {
  double x = 0, y = 0;
  for (const ObjectState& state : states) {
    x += state.x / static_cast<double>(states.size());
    y += state.y / static_cast<double>(states.size());
  }
  x = std::clamp(x + draws.uniform(-.04, .04), kNear, kFar);
  y = std::clamp(y + draws.uniform(-.06, .06), -kAside, kAside);
  // Across the table rather than along it, where there is more room.
  const double direction = (draws.with_probability(.5) ? 1 : -1) * mjPI / 2 + draws.uniform(-.5, .5);
  const double c = std::cos(direction), s = std::sin(direction), yaw = paddle_yaw(direction);
  double before = .12;
  while (before < .34 && !is_free(scene, states, x - before * c, y - before * s, .03)) before += .02;
  const double after = draws.uniform(.08, .2), bend = draws.uniform(-.4, .4);
  Path path;
  path.start(
      {{std::clamp(x - before * c, kNear, kFar + .04), std::clamp(y - before * s, -kAside - .05, kAside + .05), kAbove},
       yaw},
      0);
  path.move(x - before * c, y - before * s, kPaddleLow, yaw, kDownSpeed);
  const double speed = draws.uniform(.12, .24);
  path.move(x, y, kPaddleLow, yaw, speed);
  path.move(x + after * std::cos(direction + bend), y + after * std::sin(direction + bend), kPaddleLow, yaw + bend / 2,
            speed);
  path.raise(kAbove, kDownSpeed);
  return std::move(path).points();
}

/// The fingers close along the object's y axis, or x where that is narrower; a quarter turn either way is the same.
std::vector<Waypoint> lift(const Scene& scene, const std::vector<ObjectState>& states, size_t target, Draws& draws) {
  const Object& object = scene.objects[target];
  const ObjectState& state = states[target];
  double yaw = state.yaw + (object.half[0] < object.half[1] ? mjPI / 2 : 0);
  yaw = paddle_yaw(yaw);
  const double low = std::max(state.z + draws.uniform(-.004, .006), .035);
  const double high = low + draws.uniform(.1, .2), start = std::max(kAbove, low + .12);
  Path path;
  path.start({{state.x, state.y, start}, yaw}, kOpen);
  path.move(state.x, state.y, low, yaw, kDownSpeed);
  path.grip(kShut, .35);
  path.raise(high, draws.uniform(.12, .25));
  const double x = std::clamp(state.x + draws.uniform(-.16, .16), kNear + .02, kFar);
  const double y = std::clamp(state.y + draws.uniform(-.2, .2), -kAside, kAside);
  path.move(x, y, high, yaw + draws.uniform(-.5, .5), draws.uniform(.12, .25));
  if (draws.with_probability(.5)) path.raise(low + .004, .2);  // put down; let fall otherwise
  path.grip(kOpen, .3);
  path.raise(std::max(high, start), kDownSpeed);
  return std::move(path).points();
}

}  // namespace

double travel_time(const ToolPose& from, const ToolPose& to, double speed) {
  const double distance = mju_dist3(from.tip.data(), to.tip.data());
  constexpr double kTurnSpeed = 1.5, kShortest = .15;
  return std::max({distance / speed, std::abs(to.yaw - from.yaw) / kTurnSpeed, kShortest});
}

std::vector<Waypoint> plan(const Scene& scene, const std::vector<ObjectState>& states, int64_t round, Draws& draws) {
  // Objects that have left the arm's reach are not tried again, unless all have.
  std::vector<size_t> reachable;
  for (size_t i = 0; i < states.size(); ++i) {
    const bool stands = scene.kind != Kind::lift || std::abs(states[i].z - scene.objects[i].half[2]) < .01;
    if (inside(states[i].x, states[i].y) && stands) reachable.push_back(i);
  }
  const int64_t count = std::ssize(reachable);
  const size_t any = count > 0 ? reachable[static_cast<size_t>(draws.below(count))] : static_cast<size_t>(0);
  switch (scene.kind) {
    case Kind::push:
      return push(scene, states, any, kPaddleLow, draws.uniform(.1, .2), draws.uniform(.1, .22), draws);
    case Kind::topple: {
      // Upright ones first, in order; a push near the top. What lies is pushed at the table.
      const auto tall = [&](size_t i) {
        return scene.objects[i].half[2] > .055 && states[i].z > scene.objects[i].half[2] - .01;
      };
      const auto found = std::find_if(reachable.begin(), reachable.end(), tall);
      if (found == reachable.end()) {
        return push(scene, states, any, kPaddleLow, draws.uniform(.06, .12), draws.uniform(.1, .2), draws);
      }
      const double z = scene.objects[*found].half[2] * 2 * draws.uniform(.78, .95);
      return push(scene, states, *found, std::max(z, .08), draws.uniform(.07, .12), draws.uniform(.15, .28), draws);
    }
    case Kind::lift:
      return lift(scene, states, round == 0 ? 0 : any, draws);
    case Kind::sweep:
      return sweep(scene, states, draws);
  }
  return {};
}

}  // namespace topomask::robot

#pragma once

#include <array>
#include <string>
#include <vector>

#include "arm.h"
#include "draws.h"
#include "handles.h"
#include "settings.h"

namespace topomask::robot {

enum class Kind { push, topple, lift, sweep };
inline constexpr std::array<const char*, 4> kKindNames{"push", "topple", "lift", "sweep"};

/// The part of the table that the arm reaches with its tool pointing down, metres; its base is at the origin.
inline constexpr double kNear = 0.46, kFar = 0.74, kAside = 0.30;

enum class Shape { box, cylinder, can, soft };

/// An object as it is placed: half sizes along x, y and z (of a cylinder radius, radius, half height).
struct Object {
  Shape shape = Shape::box;
  std::string name;
  std::array<double, 3> half{};
  double x = 0, y = 0, yaw = 0;
  std::array<double, 3> colour{};

  double radius() const;  ///< of the circle around it on the table
};

/// What is on the table, and the tool that moves it.
struct Scene {
  Kind kind = Kind::push;
  Tool tool = Tool::paddle;
  double paddle_half_width = 0.05;
  std::vector<Object> objects;
  bool soft = false;

  static Scene draw(Kind kind, Draws& draws);
};

/// The scene with table, lights, two cameras (named left and right), objects (bodies object0, object1, …; the soft cube
/// a flex of that name) and arm, compiled.
Model compile(const Scene& scene, const Settings& settings);

}  // namespace topomask::robot

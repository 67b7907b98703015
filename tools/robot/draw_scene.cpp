#include <algorithm>
#include <cmath>
#include <map>

#include "scene.h"

namespace topomask::robot {
namespace {

constexpr double kGap = 0.02;  // between the circles around objects
constexpr int kPlaces = 400;

/// Strong colours, which differ from the table's wood, the arm's grey and orange.
constexpr std::array<std::array<double, 3>, 8> kColours{{{.85, .1, .12},
                                                         {.1, .3, .85},
                                                         {.1, .6, .2},
                                                         {.9, .8, .1},
                                                         {.55, .15, .65},
                                                         {.1, .65, .7},
                                                         {.9, .45, .65},
                                                         {.15, .15, .2}}};

Object draw_box(Draws& draws, double low, double high) {
  return {Shape::box, "box", {draws.uniform(low, high), draws.uniform(low, high), draws.uniform(low, high)}};
}

Object draw_cylinder(Draws& draws, double low, double high) {
  const double radius = draws.uniform(low, high);
  return {Shape::cylinder, "cylinder", {radius, radius, draws.uniform(low, high)}};
}

Object make_can() {
  return {Shape::can, "can", {.033, .033, .0575}};
}

Object make_soft() {
  return {Shape::soft, "soft cube", {.036, .036, .036}};
}

/// Thin enough to fall over where it is pushed near its top.
Object draw_tall(Draws& draws) {
  if (draws.with_probability(.35)) return make_can();
  Object object = draws.with_probability(.5) ? draw_box(draws, .022, .03) : draw_cylinder(draws, .022, .03);
  object.half[2] = draws.uniform(.065, .095);
  object.name = "tall " + object.name;
  return object;
}

/// Narrow enough for the gripper along its y axis.
Object draw_graspable(Draws& draws) {
  Object object = draws.with_probability(.35) ? draw_cylinder(draws, .022, .034) : draw_box(draws, .022, .036);
  object.half[2] = draws.uniform(.025, .045);
  return object;
}

std::vector<Object> draw_objects(Kind kind, Draws& draws) {
  std::vector<Object> objects;
  const auto others = [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      objects.push_back(draws.with_probability(.6) ? draw_box(draws, .026, .045) : draw_cylinder(draws, .026, .042));
    }
  };
  switch (kind) {
    case Kind::push:
      if (draws.with_probability(.3)) objects.push_back(make_soft());
      if (draws.with_probability(.4)) objects.push_back(make_can());
      others(2 + draws.below(2));
      break;
    case Kind::topple:
      for (int64_t i = 2 + draws.below(2); i > 0; --i) objects.push_back(draw_tall(draws));
      others(draws.below(2));
      break;
    case Kind::lift:
      for (int64_t i = 2 + draws.below(2); i > 0; --i) objects.push_back(draw_graspable(draws));
      if (draws.with_probability(.3)) objects.push_back(make_soft());
      break;
    case Kind::sweep:
      for (int64_t i = 4 + draws.below(3); i > 0; --i) {
        objects.push_back(draws.with_probability(.6) ? draw_box(draws, .018, .028) : draw_cylinder(draws, .018, .028));
      }
      break;
  }
  return objects;
}

/// Free of those before it; false where no place was found.
bool place(std::vector<Object>& objects, size_t index, Draws& draws) {
  Object& object = objects[index];
  for (int attempt = 0; attempt < kPlaces; ++attempt) {
    object.x = draws.uniform(kNear + .05, kFar - .04);
    object.y = draws.uniform(-kAside + .07, kAside - .07);
    const bool is_free =
        std::all_of(objects.begin(), objects.begin() + static_cast<std::ptrdiff_t>(index), [&](const Object& other) {
          return std::hypot(object.x - other.x, object.y - other.y) > object.radius() + other.radius() + kGap;
        });
    if (is_free) return true;
  }
  return false;
}

}  // namespace

double Object::radius() const {
  return shape == Shape::cylinder || shape == Shape::can ? half[0] : std::hypot(half[0], half[1]);
}

Scene Scene::draw(Kind kind, Draws& draws) {
  Scene scene{.kind = kind, .tool = kind == Kind::lift ? Tool::gripper : Tool::paddle};
  scene.paddle_half_width = kind == Kind::sweep ? draws.uniform(.08, .1) : draws.uniform(.04, .055);
  scene.objects = draw_objects(kind, draws);
  std::map<std::string, int> count;
  const int64_t first_colour = draws.below(kColours.size());
  for (size_t i = 0; i < scene.objects.size(); ++i) {
    if (!place(scene.objects, i, draws)) {
      scene.objects.resize(i);
      break;
    }
    Object& object = scene.objects[i];
    object.yaw = draws.uniform(-1.5, 1.5);
    object.colour = kColours[(static_cast<size_t>(first_colour) + i) % kColours.size()];
    for (double& part : object.colour) part = std::clamp(part + draws.uniform(-.08, .08), 0., 1.);
    object.name += " " + std::to_string(++count[object.name]);
    scene.soft |= object.shape == Shape::soft;
  }
  return scene;
}

}  // namespace topomask::robot

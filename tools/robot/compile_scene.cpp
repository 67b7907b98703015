#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include "scene.h"

namespace topomask::robot {
namespace {

// Objects and table collide with each other and with the robot, whose parts have type 2.
constexpr const char* kContact = "contype='1' conaffinity='3' condim='4' friction='.5 .01 .001'";
constexpr double kDensity = 300;  // kg/m³, light wood
constexpr double kFieldOfView = 32;

std::string colour_of(const Object& object, double factor = 1) {
  return c10::str("rgba='", object.colour[0] * factor, " ", object.colour[1] * factor, " ", object.colour[2] * factor,
                  " 1'");
}

std::string rigid_geoms(const Object& object) {
  const auto& half = object.half;
  // Rolling friction as well: a cylinder that lies would roll out of sight otherwise.
  const std::string round =
      c10::str("contype='1' conaffinity='3' condim='6' friction='.5 .01 .003' density='", kDensity, "'");
  switch (object.shape) {
    case Shape::box:
      return c10::str("<geom type='box' size='", half[0], " ", half[1], " ", half[2], "' density='", kDensity, "' ",
                      kContact, " ", colour_of(object), "/>");
    case Shape::cylinder:
      return c10::str("<geom type='cylinder' size='", half[0], " ", half[2], "' ", round, " ", colour_of(object), "/>");
    default:  // a can: metal ends, and a painted body that is a little wider
      return c10::str("<geom type='cylinder' size='", half[0], " ", half[2] * .93, "' ", round, " ", colour_of(object),
                      "/><geom type='cylinder' size='", half[0] * .92, " ", half[2], "' ", round,
                      " rgba='.8 .8 .82 1'/>");
  }
}

std::string object_xml(const Object& object, size_t index) {
  const std::string place =
      c10::str("pos='", object.x, " ", object.y, " ", object.half[2] + .002, "' euler='0 0 ", object.yaw, "'");
  if (object.shape != Shape::soft) {
    return c10::str("<body name='object", index, "' ", place, "><freejoint/>", rigid_geoms(object), "</body>");
  }
  constexpr double kSkin = .003;
  const double spacing = (object.half[0] - kSkin) * 2 / 3;
  return c10::str("<flexcomp name='object", index, "' dof='trilinear' type='grid' count='4 4 4' spacing='", spacing,
                  " ", spacing, " ", spacing, "' ", place, " dim='3' radius='", kSkin, "' mass='.12' ",
                  colour_of(object),
                  "><contact selfcollide='none' contype='1' conaffinity='3' condim='3' solref='.01 1' ",
                  "friction='.6 .01 .001'/><elasticity young='3e4' poisson='.2' damping='.01'/></flexcomp>");
}

/// A camera at `from` that looks at `to`, upright.
std::string camera(const char* name, const double (&from)[3], const double (&to)[3]) {
  mjtNum forward[3], right[3], up[3];
  mju_sub3(forward, to, from);
  mju_normalize3(forward);
  const mjtNum vertical[3] = {0, 0, 1};
  mju_cross(right, forward, vertical);
  mju_normalize3(right);
  mju_cross(up, right, forward);
  return c10::str("<camera name='", name, "' pos='", from[0], " ", from[1], " ", from[2], "' xyaxes='", right[0], " ",
                  right[1], " ", right[2], " ", up[0], " ", up[1], " ", up[2], "' fovy='", kFieldOfView, "'/>");
}

std::string scene_xml(const Scene& scene, const Settings& settings) {
  std::string objects;
  for (size_t i = 0; i < scene.objects.size(); ++i) objects += object_xml(scene.objects[i], i);
  const int64_t side = settings.side;
  return c10::str(
      "<mujoco model='scene'><compiler angle='radian'/><option timestep='.002' cone='elliptic' impratio='5' "
      "integrator='",
      scene.soft ? "discrete" : "implicitfast", "'/><statistic center='.6 0 .1' extent='1'/><visual><global offwidth='",
      side, "' offheight='", side,
      // Multisampling would blend depths at edges.
      "'/><quality shadowsize='1024' offsamples='0'/><map znear='.05' zfar='6'/>",
      "<headlight diffuse='.45 .45 .45' ambient='.35 .35 .35' specular='0 0 0'/></visual>",
      "<asset><texture name='wood' type='2d' builtin='checker' rgb1='.74 .62 .46' rgb2='.68 .55 .4' width='256' "
      "height='256'/><material name='wood' texture='wood' texrepeat='5 5' texuniform='true' specular='0'/></asset>",
      "<worldbody><light pos='.5 -.4 2' dir='.1 .25 -1' directional='true' diffuse='.5 .5 .5' specular='.1 .1 .1'/>",
      // Large enough that neither camera sees past it.
      "<geom name='table' type='box' size='4 4 .02' pos='.5 0 -.02' material='wood' ", kContact, "/>",
      camera("left", {1.2, .5, .85}, {.59, .01, .08}), camera("right", {1.2, -.5, .85}, {.59, -.01, .08}),
      "<frame name='robot'/>", objects, "</worldbody></mujoco>");
}

}  // namespace

Model compile(const Scene& scene, const Settings& settings) {
  char error[1000] = "";
  const std::string xml = scene_xml(scene, settings);
  const Spec spec(mj_parseXMLString(xml.c_str(), nullptr, error, sizeof(error)));
  TORCH_INTERNAL_ASSERT(spec, "MuJoCo: ", error);
  const Spec arm = make_arm(settings.arm, scene.tool, scene.paddle_half_width);
  mjsElement* const place = mjs_findFrame(spec.get(), "robot")->element;
  TORCH_CHECK(mjs_attach(place, mjs_findBody(arm.get(), "base")->element, "arm/", ""),
              "robot data: the arm cannot be attached: ", mjs_getError(spec.get()));
  Model model(mj_compile(spec.get(), nullptr));
  TORCH_CHECK(model, "robot data: MuJoCo cannot compile the scene: ", mjs_getError(spec.get()));
  return model;
}

}  // namespace topomask::robot

#include "arm.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <array>
#include <filesystem>
#include <vector>

namespace topomask::robot {
namespace {

/// A link of the arm of capsules: where its frame stands in that of the link before, and its capsule.
struct Link {
  const char *position, *rotation;
  double range;     ///< of the joint about z, radians to either side
  const char* end;  ///< of the capsule, which starts at the joint
  double radius, mass;
  const char* colour;
};
constexpr const char *kGrey = ".45 .45 .47 1", *kOrange = "1 .45 .05 1";
constexpr std::array<Link, kArmJoints> kLinks{{
    {"0 0 .1575", "1 0 0 0", 2.967, "0 0 .2025", .075, 5.8, kGrey},
    {"0 0 .2025", "0 0 1 1", 2.094, "0 .2045 0", .072, 6.3, kOrange},
    {"0 .2045 0", "0 0 1 1", 2.967, "0 0 .2155", .066, 3.5, kGrey},
    {"0 0 .2155", "1 1 0 0", 2.094, "0 .1845 0", .064, 3.5, kOrange},
    {"0 .1845 0", "0 0 1 1", 2.967, "0 0 .2155", .051, 3.5, kGrey},
    {"0 0 .2155", "1 1 0 0", 2.094, "0 .05 0", .055, 1.8, kOrange},
    {"0 .081 0", "0 0 1 1", 3.054, "0 0 .02", .042, 1.2, kGrey},
}};

// Robot parts collide with the table and with objects, not with each other: the planner keeps the arm's posture.
constexpr const char* kRobotGeom = "contype='2' conaffinity='0' group='2'";

std::string builtin_arm() {
  std::string bodies, ends, servos;
  for (size_t i = 0; i < kLinks.size(); ++i) {
    const Link& link = kLinks[i];
    bodies += c10::str("<body name='link", i + 1, "' pos='", link.position, "' quat='", link.rotation,
                       "'><joint name='joint", i + 1, "' axis='0 0 1' damping='1' armature='.1' range='", -link.range,
                       " ", link.range, "'/><geom type='capsule' fromto='0 0 0 ", link.end, "' size='", link.radius,
                       "' mass='", link.mass, "' rgba='", link.colour, "' ", kRobotGeom, "/>");
    ends += "</body>";
    servos += c10::str("<position name='actuator", i + 1, "' joint='joint", i + 1, "' kp='4000' kv='180' ctrlrange='",
                       -link.range, " ", link.range, "'/>");
  }
  return c10::str("<mujoco model='arm'><compiler angle='radian'/><worldbody><body name='base'>",
                  "<geom type='cylinder' fromto='0 0 0 0 0 .1575' size='.1' rgba='", kGrey, "' ", kRobotGeom, "/>",
                  bodies, "<site name='attachment_site' pos='0 0 .045' group='4'/>", ends,
                  "</body></worldbody><actuator>", servos, "</actuator></mujoco>");
}

std::string paddle(double half_width) {
  return c10::str("<mujoco model='paddle'><worldbody><body name='tool'>",
                  "<geom type='capsule' fromto='0 0 0 0 0 .13' size='.013' rgba='.2 .2 .22 1' mass='.1' ", kRobotGeom,
                  "/><geom name='paddle' type='box' pos='0 0 .155' size='.01 ", half_width,
                  " .035' rgba='.93 .93 .95 1' mass='.1' friction='.5 .005 .0001' ", kRobotGeom,
                  "/><site name='tip' pos='0 0 .155' group='4'/></body></worldbody></mujoco>");
}

std::string finger(const char* name, int side) {
  return c10::str("<body name='", name, "' pos='0 0 .1'><joint name='", name, "' type='slide' axis='0 ", side,
                  " 0' range='0 .055' damping='4' armature='.01'/><geom type='box' pos='0 ", side * .006,
                  " .03' size='.013 .006 .035' rgba='.9 .9 .93 1' mass='.05' condim='4' friction='1.5 .05 .001' ",
                  "solref='.006 1' ", kRobotGeom, "/></body>");
}

std::string gripper() {
  return c10::str("<mujoco model='gripper'><worldbody><body name='tool'>",
                  "<geom type='capsule' fromto='0 0 0 0 0 .07' size='.02' rgba='.2 .2 .22 1' mass='.1' ", kRobotGeom,
                  "/><geom type='box' pos='0 0 .082' size='.022 .066 .014' rgba='.25 .3 .4 1' mass='.1' ", kRobotGeom,
                  "/>", finger("left", 1), finger("right", -1),
                  "<site name='tip' pos='0 0 .145' group='4'/></body></worldbody>",
                  "<actuator><position name='left' joint='left' kp='500' kv='25' ctrlrange='0 .055'/>",
                  "<position name='right' joint='right' kp='500' kv='25' ctrlrange='0 .055'/></actuator></mujoco>");
}

Spec parse(const std::string& xml) {
  char error[1000] = "";
  Spec spec(mj_parseXMLString(xml.c_str(), nullptr, error, sizeof(error)));
  TORCH_INTERNAL_ASSERT(spec, "MuJoCo: ", error);
  return spec;
}

Spec read_arm(const std::string& folder) {
  const std::filesystem::path file = std::filesystem::path(folder) / "iiwa14.xml";
  TORCH_CHECK(std::filesystem::is_regular_file(file),
              "robot data: the arm must be 'builtin' or a folder with iiwa14.xml ",
              "(kuka_iiwa_14 of MuJoCo Menagerie), got '", folder, "'");
  char error[1000] = "";
  Spec spec(mj_parseXML(file.c_str(), nullptr, error, sizeof(error)));
  TORCH_CHECK(spec, "robot data: ", file.string(), ": ", error);
  return spec;
}

/// The scene has lights of its own, and poses for the arm alone would not fit it.
void remove_all(mjSpec* spec, mjtObj type) {
  while (mjsElement* element = mjs_firstElement(spec, type)) mjs_delete(spec, element);
}

}  // namespace

Spec make_arm(const std::string& arm, Tool tool, double half_width) {
  Spec spec = arm == "builtin" ? parse(builtin_arm()) : read_arm(arm);
  remove_all(spec.get(), mjOBJ_KEY);
  remove_all(spec.get(), mjOBJ_LIGHT);
  for (const char* name : {"base", "link1", "link7"}) {
    TORCH_CHECK(mjs_findBody(spec.get(), name), "robot data: the arm in ", arm, " must have a body ", name);
  }
  mjsElement* const flange = mjs_findElement(spec.get(), mjOBJ_SITE, "attachment_site");
  TORCH_CHECK(flange, "robot data: the arm in ", arm, " must have a site attachment_site");
  const Spec tool_spec = parse(tool == Tool::paddle ? paddle(half_width) : gripper());
  TORCH_CHECK(mjs_attach(flange, mjs_findBody(tool_spec.get(), "tool")->element, "tool/", ""),
              "robot data: the tool cannot be attached: ", mjs_getError(spec.get()));
  for (mjsElement* e = mjs_firstElement(spec.get(), mjOBJ_BODY); e; e = mjs_nextElement(spec.get(), e)) {
    mjs_asBody(e)->gravcomp = 1;
  }
  return spec;
}

}  // namespace topomask::robot

#include "renderer.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "topomask/data/episodes.h"

namespace topomask::robot {
namespace {

constexpr int kMostGeoms = 1000;
constexpr const char* kPrefix = "object";

}  // namespace

int object_number(const char* name) {
  const size_t length = std::strlen(kPrefix);
  if (!name || std::strncmp(name, kPrefix, length) != 0) return -1;
  return std::atoi(name + length);
}

Cameras::Cameras(const mjModel* model, const ArmMap& arm, int64_t side, bool shadows)
    : model_(model),
      arm_(arm),
      side_(side),
      shadows_(shadows),
      table_(mj_name2id(model, mjOBJ_GEOM, "table")),
      pixels_(static_cast<size_t>(side * side * 3)),
      distances_(static_cast<size_t>(side * side)) {
  mjv_defaultScene(&scene_);
  mjv_makeScene(model, &scene_, kMostGeoms);
  mjv_defaultOption(&option_);
  mjr_defaultContext(&context_);
  mjr_makeContext(model, &context_, mjFONTSCALE_50);
  mjr_setBuffer(mjFB_OFFSCREEN, &context_);
  TORCH_CHECK(context_.currentBuffer == mjFB_OFFSCREEN, "robot data: OpenGL has no buffer to render into");
}

Cameras::~Cameras() {
  mjr_freeContext(&context_);
  mjv_freeScene(&scene_);
}

uint8_t Cameras::id_of(const mjvGeom& geom) const {
  if (geom.objtype == mjOBJ_FLEX) {
    return static_cast<uint8_t>(kFirstObject + object_number(mj_id2name(model_, mjOBJ_FLEX, geom.objid)));
  }
  if (geom.objtype != mjOBJ_GEOM) return kBackground;
  if (geom.objid == table_) return kTable;
  const int body = model_->geom_bodyid[geom.objid];
  if (arm_.owns_body(body)) return kRobot;
  const int object = object_number(mj_id2name(model_, mjOBJ_BODY, body));
  return static_cast<uint8_t>(object < 0 ? kBackground : kFirstObject + object);
}

void Cameras::render(bool segments) {
  scene_.flags[mjRND_SHADOW] = shadows_ && !segments;
  scene_.flags[mjRND_REFLECTION] = 0;
  scene_.flags[mjRND_SEGMENT] = scene_.flags[mjRND_IDCOLOR] = segments;
  const int side = static_cast<int>(side_);
  const mjrRect view{0, 0, side, side};
  mjr_render(view, &scene_, &context_);
  mjr_readPixels(pixels_.data(), segments ? nullptr : distances_.data(), view, &context_);
}

void Cameras::look(mjData* data, int camera, uint8_t* rgb, float* depth, uint8_t* ids) {
  mjvCamera view;
  mjv_defaultCamera(&view);
  view.type = mjCAMERA_FIXED;
  view.fixedcamid = camera;
  mjv_updateScene(model_, data, &option_, nullptr, &view, mjCAT_ALL, &scene_);
  const auto side = static_cast<size_t>(side_);
  const double near = model_->vis.map.znear * model_->stat.extent, far = model_->vis.map.zfar * model_->stat.extent;
  render(false);
  for (size_t row = 0; row < side; ++row) {
    const size_t from = (side - 1 - row) * side;  // OpenGL's rows go upwards
    std::copy_n(&pixels_[3 * from], 3 * side, rgb + 3 * row * side);
    for (size_t column = 0; column < side; ++column) {
      const double d = distances_[from + column];
      depth[row * side + column] = d >= 1 ? 0.F : static_cast<float>(near / (1 - d * (1 - near / far)));
    }
  }
  render(true);
  for (size_t row = 0; row < side; ++row) {
    for (size_t column = 0; column < side; ++column) {
      const uint8_t* const pixel = &pixels_[3 * ((side - 1 - row) * side + column)];
      const int segment = pixel[0] + (pixel[1] << 8) + (pixel[2] << 16) - 1;
      const bool known = segment >= 0 && segment < scene_.ngeom;
      ids[row * side + column] = known ? id_of(scene_.geoms[segment]) : static_cast<uint8_t>(kBackground);
    }
  }
}

void Cameras::intrinsics(int camera, double* matrix) const {
  const double half = static_cast<double>(side_) / 2;
  const double focal = half / std::tan(model_->cam_fovy[camera] * mjPI / 360);
  const double values[9] = {focal, 0, half, 0, focal, half, 0, 0, 1};
  std::copy_n(values, 9, matrix);
}

void Cameras::pose(const mjData* data, int camera, double* matrix) const {
  const mjtNum* const axes = data->cam_xmat + 9 * camera;  // columns: right, up, backwards
  const mjtNum* const place = data->cam_xpos + 3 * camera;
  for (int row = 0; row < 3; ++row) {
    matrix[4 * row] = axes[3 * row];
    matrix[4 * row + 1] = -axes[3 * row + 1];
    matrix[4 * row + 2] = -axes[3 * row + 2];
    matrix[4 * row + 3] = place[row];
  }
  const double last[4] = {0, 0, 0, 1};
  std::copy_n(last, 4, matrix + 12);
}

}  // namespace topomask::robot

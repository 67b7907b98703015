#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "draws.h"
#include "motion.h"

namespace topomask::robot {
namespace {

constexpr int kCandidates = 300;  // on each visible part

using Vector = std::array<double, 3>;

/// A point on the surface of a geom, in its frame; vertices of a mesh.
Vector surface_point(const mjModel* model, int geom, Draws& draws) {
  const mjtNum* const size = model->geom_size + 3 * geom;
  const double angle = draws.uniform(0, 2 * mjPI), height = draws.uniform(-1, 1);
  switch (model->geom_type[geom]) {
    case mjGEOM_MESH: {
      const int mesh = model->geom_dataid[geom];
      const float* const vertex =
          model->mesh_vert + 3 * (model->mesh_vertadr[mesh] + draws.below(model->mesh_vertnum[mesh]));
      return {vertex[0], vertex[1], vertex[2]};
    }
    case mjGEOM_BOX: {
      Vector point{draws.uniform(-1, 1) * size[0], draws.uniform(-1, 1) * size[1], height * size[2]};
      const auto face = static_cast<size_t>(draws.below(3));
      point[face] = std::copysign(size[face], point[face]);
      return point;
    }
    case mjGEOM_CAPSULE:
    case mjGEOM_CYLINDER:
      return {size[0] * std::cos(angle), size[0] * std::sin(angle), height * size[1]};
    default: {  // a sphere
      const double ring = std::sqrt(1 - height * height);
      return {size[0] * ring * std::cos(angle), size[0] * ring * std::sin(angle), size[0] * height};
    }
  }
}

}  // namespace

void ArmMap::choose_points() {
  const int tool = mj_name2id(model_, mjOBJ_BODY, "arm/tool/tool"), base = mj_name2id(model_, mjOBJ_BODY, "arm/base");
  std::vector<bool> of_tool(static_cast<size_t>(model_->nbody));
  for (int body = 1; body < model_->nbody; ++body) {
    of_tool[static_cast<size_t>(body)] = body == tool || of_tool[static_cast<size_t>(model_->body_parentid[body])];
  }
  Draws draws(0);
  std::vector<Point> candidates[2];  // of links, of the tool
  for (int geom = 0; geom < model_->ngeom; ++geom) {
    const int body = model_->geom_bodyid[geom];
    const bool visible = model_->geom_group[geom] <= 2 && model_->geom_rgba[4 * geom + 3] > 0;
    if (!visible || body == base || !owns_body(body)) continue;
    for (int i = 0; i < kCandidates; ++i) {
      const Vector local = surface_point(model_, geom, draws);
      Point point{.body = body};
      mju_rotVecQuat(point.position.data(), local.data(), model_->geom_quat + 4 * geom);
      mju_addTo3(point.position.data(), model_->geom_pos + 3 * geom);
      candidates[of_tool[static_cast<size_t>(body)] ? 1 : 0].push_back(point);
    }
  }
  // Farthest first, in the home posture: each next point is the one with the largest distance to those chosen.
  set_state(scratch_.get(), home(), 0);
  mj_kinematics(model_, scratch_.get());
  for (const int part : {1, 0}) {
    const std::vector<Point>& from = candidates[part];
    TORCH_CHECK(!from.empty(), "robot data: the arm must have visible parts");
    std::vector<Vector> places(from.size());
    for (size_t i = 0; i < from.size(); ++i) {
      mju_mulMatVec3(places[i].data(), scratch_->xmat + 9 * from[i].body, from[i].position.data());
      mju_addTo3(places[i].data(), scratch_->xpos + 3 * from[i].body);
    }
    std::vector<double> distance(from.size(), std::numeric_limits<double>::infinity());
    size_t next = 0;
    for (int count = part == 1 ? kToolPoints : kLinkPoints; count > 0; --count) {
      points_.push_back(from[next]);
      for (size_t i = 0; i < from.size(); ++i) {
        distance[i] = std::min(distance[i], mju_dist3(places[i].data(), places[next].data()));
      }
      next = static_cast<size_t>(std::max_element(distance.begin(), distance.end()) - distance.begin());
    }
  }
}

}  // namespace topomask::robot

#include "data/graphs/clouds.h"
#include "fuzz/graph_set.h"

namespace {

using namespace topomask;

void check_mesh(const SurfaceMesh& mesh) {
  for (const int32_t corner : mesh.corners) {
    fuzz::require(corner >= 0 && corner < mesh.vertices(), "a triangle names no vertex");
  }
  fuzz::require(mesh_features(mesh).isfinite().all().item<bool>(), "a feature is not finite");
}

}  // namespace

FUZZ_TARGET(mesh) {
  const std::string text(fuzz::text_of(data, size));
  fuzz::run("fuzz: a.obj", [&] { check_mesh(read_obj(*fuzz::lines_in("a.obj", text))); });
  fuzz::run("fuzz: a.off", [&] { check_mesh(read_off(*fuzz::lines_in("a.off", text))); });
}

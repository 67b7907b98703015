#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "core/internal_api.h"
#include "io/line_reader.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// The surface that a mesh file describes.
struct SurfaceMesh {
  std::vector<float> places;     ///< x, y, z of each vertex
  std::vector<int32_t> corners;  ///< three vertices of each triangle; polygons are cut into fans

  int64_t vertices() const { return std::ssize(places) / 3; }
  int64_t triangles() const { return std::ssize(corners) / 3; }
};

/// Wavefront OBJ: lines v x y z and f a b c … (a/texture/normal too; negative numbers count from the end). Other lines
/// are left alone. Errors name file and line.
SurfaceMesh read_obj(io::LineReader& reader);

/// Object File Format: OFF, the counts of vertices, faces and edges, then the vertices, then a line k a b c … for each
/// face.
SurfaceMesh read_off(io::LineReader& reader);

/// Either, by the end of the name; plain or gzip.
SurfaceMesh read_mesh(const io::Origin& origin);

}  // namespace topomask

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
/// are left alone, and a backslash at the end of a line joins the next to it. Faces of fewer than three vertices are
/// skipped, here and in read_off. Errors name file and line.
SurfaceMesh read_obj(io::LineReader& reader);

/// Object File Format: OFF, the counts of vertices, faces and edges, then the vertices, then a line k a b c … for each
/// face. STOFF, COFF, NOFF and their combinations have texture, colour or a normal after the place of a vertex, which
/// are not read.
SurfaceMesh read_off(io::LineReader& reader);

/// ".obj" or ".off" by the end of a name, in upper or lower case, with or without ".gz" after it; empty for any other.
std::string mesh_extension(std::string name);

/// Either, by mesh_extension; plain or gzip.
SurfaceMesh read_mesh(const io::Origin& origin);

}  // namespace topomask

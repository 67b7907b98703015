#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "data/graphs/mesh_file.h"
#include "topomask/data/graph_options.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// One cloud of points or mesh of a set.
struct Cloud {
  at::Tensor features;        ///< float32 [n, F]; the first three columns are places
  at::Tensor near;            ///< float32 [n, d]: where points are when neighbours are sought
  at::Tensor source, target;  ///< int32 [E]: edges of a mesh; undefined: the nearest neighbours are edges
  int64_t label = 0;
};

/// Clouds packed into a set. Where they have no edges of their own, each point is connected to its `neighbours` nearest
/// (all others, in a smaller cloud), an edge where either end chose the other.
GraphSet pack_clouds(std::string name, std::vector<Cloud> clouds, int64_t neighbours);

/// float32 [vertices, 10]: the place, with its mean over the vertices at 0 and a root-mean-square distance of 1 from
/// there; the unit normal; and what no rotation changes: the distance from the middle, the curvature by the angle
/// defect (2π less the angles of the triangles around a vertex, in π), the logarithm of the mean length of a vertex'
/// edges over that of the mesh, and the height above the mean of its neighbours along the normal, in mean edge lengths.
at::Tensor mesh_features(const SurfaceMesh& mesh);

}  // namespace topomask

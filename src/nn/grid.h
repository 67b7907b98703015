#pragma once

#include "topomask/graph.h"
#include "topomask/nn/options.h"

namespace topomask {

/// The patches of an image as nodes, W_ij = edge_scale/√(d_i d_j).
inline Graph grid_graph(const ViTOptions& options) {
  return Graph::grid({options.grid(), options.grid()}).normalised(options.edge_scale);
}

}  // namespace topomask

#pragma once

#include "topomask/graph.h"
#include "topomask/nn/options.h"

namespace topomask {

/// Tokens on a grid with these sides as nodes in row-major order, W_ij = edge_scale/√(d_i d_j).
inline Graph grid_graph(const ViTOptions& options, const std::vector<int64_t>& shape) {
  return Graph::grid(shape).normalised(options.edge_scale);
}

}  // namespace topomask

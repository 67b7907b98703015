#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "topomask/graph.h"

namespace topomask::apps {

/// Places of nodes in the unit square, double [N, 2]: springs along edges, nodes pushing each other away (Fruchterman
/// and Reingold 1991), from a start drawn by the seed. O(N²) a round: for graphs that are drawn, at most 2000 nodes.
at::Tensor spring_layout(const Graph& graph, uint64_t seed = 0, int rounds = 200);

struct GraphPictureOptions {
  std::string title;       ///< read out by screen readers
  int size = 260;          ///< pixels along a side
  int64_t marked = -1;     ///< a node with a ring
  double node_radius = 0;  ///< pixels; 0: by the number of nodes
};

/// Edges as lines and nodes as discs, as inline SVG. `brightness` [N], >= 0: discs are coloured from pale (0) to strong
/// (its largest value); undefined: all alike.
std::string graph_picture(const Graph& graph, const at::Tensor& places, const at::Tensor& brightness,
                          const GraphPictureOptions& options);

/// Pictures in rows of `across`, as one SVG document.
std::string side_by_side(const std::vector<std::string>& pictures, int64_t across, int size = 260);

}  // namespace topomask::apps

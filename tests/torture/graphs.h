#pragma once

#include "topomask/graph.h"
#include "torture/draw.h"

namespace topomask::torture {

/// N of a case: 0, 1, primes, powers of two and their neighbours, up to a few hundred; not above `most`.
int64_t draw_nodes(Draw& draw, int64_t most = 300);

struct GraphLimits {
  bool directed = true;  ///< directed graphs are allowed
  bool negative = true;  ///< weights of both signs are allowed
  int64_t most_nodes = 300;
};

/// A graph as the library has it, and the same as dense matrices from this program's own list of edges.
struct DrawnGraph {
  Graph graph;
  at::Tensor edges;    ///< bool [N, N]: where W is stored
  at::Tensor weights;  ///< float64 [N, N]: W
  std::string what;

  int64_t nodes() const { return edges.size(0); }
  at::Tensor degrees() const;  ///< float64 [N]: stored neighbours of each row
};

DrawnGraph draw_graph(Draw& draw, at::ScalarType dtype, const GraphLimits& limits = {});

/// A rooted forest: parent int64 [N], −1 at roots.
struct DrawnForest {
  at::Tensor parent;
  std::string what;
};
DrawnForest draw_forest(Draw& draw, int64_t most_nodes = 300);

}  // namespace topomask::torture

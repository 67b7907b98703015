#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "topomask/export.h"
#include "topomask/graph.h"

namespace TOPOMASK_API topomask {

/// Labelled graphs, packed into one block-diagonal graph. A set may hold one graph whose nodes are labelled (a citation
/// network), many whose nodes are (dependency trees), or many that are labelled themselves (molecules).
struct GraphSet {
  std::string name;
  Graph graph;          ///< of all; graph g owns nodes offsets[g] … offsets[g + 1] − 1
  at::Tensor offsets;   ///< int64 [graphs + 1]
  at::Tensor features;  ///< float32 [nodes, F]
  at::Tensor labels;    ///< int64 [graphs] or [nodes], see node_labels; −1: none
  bool node_labels = false;
  at::Tensor parents;                ///< int64 [nodes], −1 at a root: of sets of rooted trees, undefined otherwise
  std::vector<std::string> classes;  ///< a label is an index into this list
  int64_t vectors = 0;               ///< the first 3·vectors columns of features are vectors in space: places, normals

  int64_t size() const { return offsets.size(0) - 1; }  ///< graphs
  int64_t num_nodes() const { return graph.num_nodes(); }
  int64_t num_features() const { return features.size(1); }
};

/// Some graphs of a set, again packed.
struct GraphSample {
  Graph graph;
  at::Tensor features;    ///< float32 [nodes, F]
  at::Tensor labels;      ///< int64, of the graphs or of the nodes, as in the set
  at::Tensor membership;  ///< int64 [nodes]: which graph of the sample a node belongs to
  at::Tensor nodes;       ///< int64 [nodes]: where the node stands in the set
  at::Tensor parents;     ///< int64 [nodes], places in the sample, or undefined
  int64_t graphs = 0;
};

/// The graphs at these places, in this order. Rows keep their order and weights; nothing connects two graphs.
GraphSample take(const GraphSet& set, at::IntArrayRef graphs);

/// Places in a set: of graphs, or of nodes where a single graph is split by its nodes.
struct GraphSplit {
  std::vector<int64_t> train, validation, test;
  bool by_node = false;
};

}  // namespace topomask

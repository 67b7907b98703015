#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "topomask/data/graph_set.h"
#include "topomask/export.h"
#include "topomask/tasks/task.h"

namespace TOPOMASK_API topomask {

/// A graph, or the surroundings of a node, as a trained model sees it: what a picture shows.
struct GraphView {
  Graph graph;               ///< that is drawn: a graph of the set, or the nodes around one of them
  int64_t label = -1;        ///< true class; −1: none
  at::Tensor probabilities;  ///< float [classes]
  int64_t node = -1;         ///< of `graph`: whose attention is shown; the node that was asked for, or the one of most
                             ///< influence
  at::Tensor labelled;       ///< int64: the nodes of the whole graph that the model classifies; empty: the graph
  at::Tensor labels;         ///< int64, their true classes
  at::Tensor guesses;        ///< float [labelled, classes], their probabilities
  at::Tensor influence;      ///< double [nodes]: ‖∂ log p(guess) / ∂ features‖
  at::Tensor attention;      ///< double [nodes]: weights of `node`, mean over heads and layers; undefined: no attention
};

/// The view of item `place` of a split, of a task of graphs whose model is made and has its weights. `place` counts in
/// the split. Around a node of a large graph the nearest `most_nodes` are drawn.
GraphView view_graph(Task& task, const std::string& split, int64_t place, int64_t most_nodes = 150);

}  // namespace topomask

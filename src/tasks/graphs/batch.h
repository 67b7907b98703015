#pragma once

#include <ATen/core/Tensor.h>

#include "topomask/data/graph_options.h"
#include "topomask/nn/graph_model.h"

namespace topomask {

/// What a model sees in one step: some graphs, what was derived from them, and which of its logits count.
struct TaskBatch {
  GraphSample sample;
  GraphStructure structure;
  at::Tensor rows;    ///< int64 [B]: the logits that are judged, of labelled graphs or nodes
  at::Tensor labels;  ///< int64 [B]: their labels
};

/// The batch of the items at these places, on `device`: of graphs, or, where the set is split by its nodes, of nodes,
/// which are seen in the whole graph.
TaskBatch make_batch(const LoadedGraphs& data, const GraphStructure& structure, at::IntArrayRef items,
                     at::Device device);

/// The batch of the nodes at `items` and what surrounds them, for a set of one graph that is split by its nodes: the
/// structure is that of the part, but positions are those in the whole graph. `draw` tells one batch from another.
TaskBatch make_surroundings_batch(const LoadedGraphs& data, const GraphDataOptions& options, const GraphModel& model,
                                  const NodeRows& positions, at::IntArrayRef items, uint64_t seed, uint32_t draw,
                                  at::Device device);

}  // namespace topomask

#pragma once

#include <ATen/core/Tensor.h>

#include "topomask/nn/graph_layers.h"
#include "topomask/nn/graph_model.h"

namespace topomask {

/// GraphEdges of a data set, kept in a structure, and of a batch, gathered from it.
void prepare_edges(const GraphSet& set, GraphStructure& structure);
GraphEdges edges_of(const GraphSample& sample, const GraphStructure& structure);

/// The precision and device that a model computes a sample in.
at::TensorOptions working_options(const GraphSample& sample);

/// What a model reads of a structure by name, or an error: the structure is of another model.
const SparseMatrix& matrix_of(const GraphStructure& structure, const std::string& name);
const at::Tensor& rows_of(const GraphStructure& structure, const std::string& name);

/// Checks that the sample is complete and has `features` features.
void check_sample(const GraphSample& sample, int64_t features);

}  // namespace topomask

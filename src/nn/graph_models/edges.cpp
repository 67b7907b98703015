#include "nn/graph_models/edges.h"

#include <ATen/ATen.h>

#include "core/checks.h"

namespace topomask {
namespace {

constexpr const char* kPlainEdges = "edges";
constexpr const char* kLoopedEdges = "edges_with_loops";

template <class Map>
const typename Map::mapped_type& found_in(const Map& map, const std::string& name) {
  const auto found = map.find(name);
  TORCH_CHECK(found != map.end(), "graph model: structure must come from this model's structure(), got one without ",
              name);
  return found->second;
}

}  // namespace

void prepare_edges(const GraphSet& set, GraphStructure& structure) {
  if (structure.matrices.contains(kPlainEdges)) return;
  const GraphEdges edges(set.graph);
  structure.matrices.emplace(kPlainEdges, edges.normalised());
  structure.matrices.emplace(kLoopedEdges, edges.normalised_with_loops());
}

GraphEdges edges_of(const GraphSample& sample, const GraphStructure& structure) {
  const at::TensorOptions options = working_options(sample);
  return {matrix_of(structure, kPlainEdges).to(options), matrix_of(structure, kLoopedEdges).to(options)};
}

at::TensorOptions working_options(const GraphSample& sample) {
  return at::device(sample.features.device()).dtype(accumulation_type(sample.features.scalar_type()));
}

const SparseMatrix& matrix_of(const GraphStructure& structure, const std::string& name) {
  return found_in(structure.matrices, name);
}

const at::Tensor& rows_of(const GraphStructure& structure, const std::string& name) {
  return found_in(structure.node, name);
}

void check_sample(const GraphSample& sample, int64_t features) {
  const at::Tensor& x = sample.features;
  TORCH_CHECK(x.defined() && x.dim() == 2 && x.size(1) == features && x.is_floating_point(),
              "graph model: features must be Float [N, ", features, "], got ", describe(x));
  const at::Tensor& membership = sample.membership;
  TORCH_CHECK(membership.defined() && membership.dim() == 1 && membership.size(0) == x.size(0) &&
                  membership.scalar_type() == at::kLong && membership.device() == x.device(),
              "graph model: membership must be int64 [N = ", x.size(0), "] on ", x.device(), ", got ",
              describe(membership));
}

}  // namespace topomask

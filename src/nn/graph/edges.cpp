#include <ATen/ATen.h>

#include "topomask/nn/graph_layers.h"

namespace topomask {
namespace {

/// Entries in the order (row, column), with one loop at every node or none.
PatternPtr pattern_of(const Graph& graph, bool loops) {
  const int64_t nodes = graph.num_nodes();
  const auto options = graph.offsets().options();
  const at::Tensor row =
      at::repeat_interleave(at::arange(nodes, options), graph.degrees(), std::nullopt, graph.num_entries());
  const at::Tensor column = graph.columns().to(at::kLong), other = (row != column).nonzero().squeeze(1);
  at::Tensor key = (row * nodes + column).index_select(0, other);
  if (loops) key = std::get<0>(at::cat({key, at::arange(nodes, options) * (nodes + 1)}).sort());
  const at::Tensor rows = nodes == 0 ? key : key.floor_divide(nodes);
  return std::make_shared<SparsePattern>(nodes, nodes, at::searchsorted(rows, at::arange(nodes + 1, options)),
                                         (key - rows * nodes).to(at::kInt));
}

SparseMatrix normalised_values(const PatternPtr& pattern, at::ScalarType dtype) {
  const at::Tensor counts = pattern->offsets().diff();
  const at::Tensor root = counts.to(at::kDouble).clamp_min(1).rsqrt();
  const at::Tensor row = at::repeat_interleave(root, counts, std::nullopt, pattern->entries());
  return {pattern, (row * root.index_select(0, pattern->columns())).to(dtype)};
}

}  // namespace

GraphEdges::GraphEdges(const Graph& graph)
    : plain_(normalised_values(pattern_of(graph, false), graph.weights().scalar_type())),
      looped_(normalised_values(pattern_of(graph, true), graph.weights().scalar_type())) {}

GraphEdges::GraphEdges(SparseMatrix normalised, SparseMatrix normalised_with_loops)
    : plain_(std::move(normalised)), looped_(std::move(normalised_with_loops)) {
  TORCH_CHECK(plain_.pattern && looped_.pattern && plain_.pattern->rows() == looped_.pattern->rows(),
              "GraphEdges: normalised and normalised_with_loops must be matrices over the same nodes");
}

SparseMatrix GraphEdges::adjacency() const {
  return {plain_.pattern, at::ones_like(plain_.values)};
}

at::Tensor GraphEdges::counts() const {
  return plain_.pattern->offsets().diff().clamp_min(1).to(plain_.values.scalar_type()).unsqueeze(-1);
}

GraphEdges GraphEdges::to(const at::TensorOptions& target) const {
  return GraphEdges(plain_.to(target), looped_.to(target));
}

}  // namespace topomask

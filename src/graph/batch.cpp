#include <ATen/ATen.h>

#include "core/checks.h"
#include "graph/csr.h"
#include "topomask/graph.h"

namespace topomask {
namespace {

constexpr const char* kBatchOp = "GraphBatch";

void check_alike(std::span<const Graph> graphs) {
  for (const Graph& graph : graphs) {
    TORCH_CHECK(graph.device() == graphs[0].device(), kBatchOp, ": graphs must be on one device, got ",
                graphs[0].device(), " and ", graph.device());
  }
  for (size_t g = 1; g < graphs.size(); ++g) {
    TORCH_CHECK(graphs[g].directed() == graphs[0].directed(), kBatchOp,
                ": graphs must be all directed or none, got graph 0 ", graphs[0].directed() ? "directed" : "undirected",
                " and graph ", g, graphs[g].directed() ? " directed" : " undirected");
    TORCH_CHECK(graphs[g].weights().scalar_type() == graphs[0].weights().scalar_type(), kBatchOp,
                ": graphs must have one weight dtype, got ", graphs[0].weights().scalar_type(), " in graph 0 and ",
                graphs[g].weights().scalar_type(), " in graph ", g);
  }
}

PatternPtr block_diagonal_with_tensors(std::span<const Graph> graphs, int64_t nodes) {
  std::vector<at::Tensor> offsets{at::zeros({1}, graphs[0].offsets().options())}, columns;
  int64_t first_node = 0, first_entry = 0;
  for (const Graph& graph : graphs) {
    offsets.push_back(graph.offsets().slice(0, 1) + first_entry);
    columns.push_back(graph.columns() + first_node);
    first_node += graph.num_nodes();
    first_entry += graph.num_entries();
  }
  return std::make_shared<const SparsePattern>(nodes, nodes, at::cat(offsets), at::cat(columns));
}

PatternPtr block_diagonal(std::span<const Graph> graphs) {
  int64_t nodes = 0;
  int64_t entries = 0;
  for (const Graph& graph : graphs) {
    nodes += graph.num_nodes();
    entries += graph.num_entries();
    check_node_count(kBatchOp, "the number of nodes", nodes);
    check_entry_count(kBatchOp, entries);
  }
  if (!graphs.empty() && !graphs[0].device().is_cpu()) return block_diagonal_with_tensors(graphs, nodes);
  at::Tensor offsets = at::zeros({nodes + 1}, at::kLong);
  at::Tensor columns = at::empty({entries}, at::kInt);
  int64_t* offset = offsets.mutable_data_ptr<int64_t>() + 1;
  int32_t* column = columns.mutable_data_ptr<int32_t>();
  int64_t first_node = 0;
  int64_t first_entry = 0;
  for (const Graph& graph : graphs) {
    const int64_t* from = graph.offsets().const_data_ptr<int64_t>() + 1;
    const int32_t* neighbour = graph.columns().const_data_ptr<int32_t>();
    for (int64_t i = 0; i < graph.num_nodes(); ++i) *offset++ = first_entry + from[i];
    for (int64_t e = 0; e < graph.num_entries(); ++e) *column++ = static_cast<int32_t>(first_node + neighbour[e]);
    first_node += graph.num_nodes();
    first_entry += graph.num_entries();
  }
  return std::make_shared<const SparsePattern>(nodes, nodes, std::move(offsets), std::move(columns));
}

at::Tensor joined_weights(std::span<const Graph> graphs) {
  if (graphs.empty()) return {};
  std::vector<at::Tensor> weights;
  weights.reserve(graphs.size());
  for (const Graph& graph : graphs) weights.push_back(graph.weights());
  return at::cat(weights);
}

}  // namespace

GraphBatch::GraphBatch(std::span<const Graph> graphs)
    : graph_((check_alike(graphs), block_diagonal(graphs)), joined_weights(graphs),
             !graphs.empty() && graphs.front().directed()),
      offsets_(1, 0) {
  offsets_.reserve(graphs.size() + 1);
  for (const Graph& graph : graphs) offsets_.push_back(offsets_.back() + graph.num_nodes());
}

at::Tensor GraphBatch::membership() const {
  at::Tensor result = at::empty({graph_.num_nodes()}, at::kLong);
  int64_t* member = result.mutable_data_ptr<int64_t>();
  for (int64_t g = 0; g < size(); ++g) std::fill(member + offsets_[g], member + offsets_[g + 1], g);
  return result.to(graph_.device());
}

std::vector<at::Tensor> GraphBatch::split(const at::Tensor& x) const {
  TORCH_CHECK(x.defined() && x.dim() >= 2 && x.size(-2) == graph_.num_nodes(),
              "GraphBatch::split: x must be [..., N = ", graph_.num_nodes(), ", C], got ", describe(x));
  std::vector<at::Tensor> parts;
  parts.reserve(size());
  for (int64_t g = 0; g < size(); ++g) parts.push_back(x.narrow(-2, offsets_[g], offsets_[g + 1] - offsets_[g]));
  return parts;
}

}  // namespace topomask

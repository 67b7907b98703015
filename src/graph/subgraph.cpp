#include <ATen/ATen.h>

#include "graph/csr.h"
#include "topomask/graph.h"

namespace topomask {
namespace {

struct Selection {
  PatternPtr pattern;
  at::Tensor entries;  // int64: which entry of the graph each entry of the pattern was
};

/// new_id[v]: the position of node v in `nodes`, or −1.
std::vector<int32_t> positions(const char* op, const char* argument, const at::Tensor& nodes, int64_t total) {
  const int32_t* node = nodes.const_data_ptr<int32_t>();
  std::vector<int32_t> new_id(total, -1);
  for (int64_t i = 0; i < nodes.size(0); ++i) {
    TORCH_CHECK(new_id[node[i]] < 0, op, ": ", argument, " must be distinct, got node ", node[i], " at positions ",
                new_id[node[i]], " and ", i);
    new_id[node[i]] = static_cast<int32_t>(i);
  }
  return new_id;
}

Selection select(const char* op, const char* argument, const Graph& graph, const at::Tensor& nodes) {
  const std::vector<int32_t> new_id = positions(op, argument, nodes, graph.num_nodes());
  const int32_t* node = nodes.const_data_ptr<int32_t>();
  const int64_t* offset = graph.offsets().const_data_ptr<int64_t>();
  const int32_t* column = graph.columns().const_data_ptr<int32_t>();
  at::Tensor entries = at::empty({graph.num_entries()}, at::kLong);
  int64_t* entry = entries.mutable_data_ptr<int64_t>();
  PatternPtr pattern = pattern_from_rows(
      op, nodes.size(0),
      [&](int64_t i) {
        const auto kept = [&](int32_t j) { return new_id[j] >= 0; };
        return std::count_if(column + offset[node[i]], column + offset[node[i] + 1], kept);
      },
      [&](int64_t i, int64_t first, int32_t* out) {
        int64_t* from = entry + first;
        int64_t* last = from;
        for (int64_t e = offset[node[i]]; e < offset[node[i] + 1]; ++e) {
          if (new_id[column[e]] >= 0) *last++ = e;
        }
        std::sort(from, last, [&](int64_t a, int64_t b) { return new_id[column[a]] < new_id[column[b]]; });
        while (from < last) *out++ = new_id[column[*from++]];
      });
  return {pattern, entries.narrow(0, 0, pattern->entries())};
}

}  // namespace

Graph induced_subgraph(const Graph& graph, const at::Tensor& nodes) {
  if (!graph.device().is_cpu()) {
    return induced_subgraph(graph.to(at::kCPU), nodes.defined() ? nodes.cpu() : nodes).to(graph.device());
  }
  const at::Tensor checked = checked_node_ids("induced_subgraph", "nodes", nodes, 0, graph.num_nodes());
  const Selection selected = select("induced_subgraph", "nodes", graph, checked);
  return Graph(selected.pattern, graph.weights().index_select(0, selected.entries), graph.directed());
}

Graph permuted(const Graph& graph, const at::Tensor& order) {
  if (!graph.device().is_cpu()) {
    return permuted(graph.to(at::kCPU), order.defined() ? order.cpu() : order).to(graph.device());
  }
  const at::Tensor checked = checked_node_ids("permuted", "order", order, 0, graph.num_nodes());
  TORCH_CHECK(checked.size(0) == graph.num_nodes(), "permuted: order must have one position per node, ",
              graph.num_nodes(), ", got ", checked.size(0));
  const Selection selected = select("permuted", "order", graph, checked);
  return Graph(selected.pattern, graph.weights().index_select(0, selected.entries), graph.directed());
}

}  // namespace topomask

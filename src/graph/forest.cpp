#include <ATen/ATen.h>

#include "graph/csr.h"
#include "topomask/graph.h"

namespace topomask {
namespace {

/// Climbs from every node to a root or to a node known to lead to one; a climb that meets its own trail is a cycle.
void check_acyclic(const int32_t* parent, int64_t nodes) {
  constexpr int32_t kUnseen = -1;
  std::vector<int32_t> trail(nodes, kUnseen);
  for (int64_t start = 0; start < nodes; ++start) {
    int64_t node = start;
    while (node >= 0 && trail[node] == kUnseen) {
      trail[node] = static_cast<int32_t>(start);
      node = parent[node];
    }
    TORCH_CHECK(node < 0 || trail[node] != start, "forest: parent must have no cycle, got one through node ", node);
  }
}

}  // namespace

Graph Graph::forest(const at::Tensor& parent) {
  TORCH_CHECK(parent.defined(), "forest: parent must be int64 or int32 [N] on cpu, got undefined");
  const int64_t nodes = parent.numel();
  check_node_count("forest", "the length of parent", nodes);
  const at::Tensor checked = checked_node_ids("forest", "parent", parent, -1, nodes);
  const int32_t* p = checked.const_data_ptr<int32_t>();
  for (int64_t i = 0; i < nodes; ++i) {
    TORCH_CHECK(p[i] != i, "forest: parent[", i, "] must be another node or -1, got ", i, " itself");
  }
  check_acyclic(p, nodes);
  const at::Tensor child = (checked >= 0).nonzero().flatten();
  return from_edges(nodes, child, checked.index_select(0, child));
}

}  // namespace topomask

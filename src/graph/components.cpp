#include <ATen/ATen.h>

#include <numeric>

#include "topomask/graph.h"

namespace topomask {
namespace {

int32_t find_root(std::vector<int32_t>& parent, int32_t node) {
  while (parent[node] != node) {
    parent[node] = parent[parent[node]];
    node = parent[node];
  }
  return node;
}

}  // namespace

Components connected_components(const Graph& graph) {
  if (!graph.device().is_cpu()) {
    const Components found = connected_components(graph.to(at::kCPU));
    return {found.labels.to(graph.device()), found.count};
  }
  const int64_t nodes = graph.num_nodes();
  const int64_t* offset = graph.offsets().const_data_ptr<int64_t>();
  const int32_t* column = graph.columns().const_data_ptr<int32_t>();
  // Union-find with the lowest node as root: directions do not matter, and roots come up in the order of their labels.
  std::vector<int32_t> parent(nodes);
  std::iota(parent.begin(), parent.end(), 0);
  for (int64_t i = 0; i < nodes; ++i) {
    for (int64_t e = offset[i]; e < offset[i + 1]; ++e) {
      if (!graph.directed() && column[e] >= i) break;  // the other row holds this edge too
      const int32_t a = find_root(parent, static_cast<int32_t>(i));
      const int32_t b = find_root(parent, column[e]);
      parent[std::max(a, b)] = std::min(a, b);
    }
  }
  Components components{at::empty({nodes}, at::kLong), 0};
  int64_t* label = components.labels.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < nodes; ++i) {
    const int32_t root = find_root(parent, static_cast<int32_t>(i));
    label[i] = root == i ? components.count++ : label[root];
  }
  return components;
}

}  // namespace topomask

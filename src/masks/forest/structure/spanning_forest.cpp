#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "core/move.h"
#include "topomask/forest.h"

namespace topomask {
namespace {

/// Sets of nodes that are joined so far: union by size, halving paths.
class Joined {
 public:
  explicit Joined(int64_t nodes) : parent_(nodes), size_(nodes, 1) { std::iota(parent_.begin(), parent_.end(), 0); }

  bool join(int32_t u, int32_t v) {
    u = find(u), v = find(v);
    if (u == v) return false;
    if (size_[u] < size_[v]) std::swap(u, v);
    parent_[v] = u;
    size_[u] += size_[v];
    return true;
  }

 private:
  int32_t find(int32_t v) {
    while (parent_[v] != v) v = parent_[v] = parent_[parent_[v]];
    return v;
  }

  std::vector<int32_t> parent_, size_;
};

struct Edge {
  int32_t u, v;
  int64_t entry;  ///< in the graph's weights
};

/// Every edge once, u ≤ v, ascending.
std::vector<Edge> edges_of(const Graph& graph) {
  const int64_t* offset = graph.offsets().const_data_ptr<int64_t>();
  const int32_t* column = graph.columns().const_data_ptr<int32_t>();
  std::vector<Edge> edges;
  for (int32_t u = 0; u < graph.num_nodes(); ++u) {
    for (int64_t e = offset[u]; e < offset[u + 1]; ++e) {
      if (u <= column[e]) edges.push_back({u, column[e], e});
    }
  }
  return edges;
}

/// The forest with those edges of the graph, each tree rooted at its lowest node.
Forest rooted_forest(const Graph& graph, const std::vector<Edge>& edges) {
  const int64_t nodes = graph.num_nodes();
  std::vector<int64_t> offset(nodes + 1, 0);
  for (const Edge& e : edges) ++offset[e.u + 1], ++offset[e.v + 1];
  std::partial_sum(offset.begin(), offset.end(), offset.begin());
  std::vector<int64_t> incident(2 * edges.size()), next(offset.begin(), offset.end() - 1);
  for (size_t i = 0; i < edges.size(); ++i) {
    incident[next[edges[i].u]++] = incident[next[edges[i].v]++] = static_cast<int64_t>(i);
  }

  at::Tensor parent = at::full({nodes}, -1, at::kInt), entry = at::zeros({nodes}, at::kLong);
  auto* up = parent.mutable_data_ptr<int32_t>();
  auto* from = entry.mutable_data_ptr<int64_t>();
  std::vector<bool> reached(nodes, false);
  std::vector<int32_t> queue;
  for (int32_t root = 0; root < nodes; ++root) {
    if (reached[root]) continue;
    reached[root] = true;
    queue.assign(1, root);
    for (size_t head = 0; head < queue.size(); ++head) {
      const int32_t u = queue[head];
      for (int64_t i = offset[u]; i < offset[u + 1]; ++i) {
        const Edge& e = edges[incident[i]];
        const int32_t v = e.u == u ? e.v : e.u;
        if (reached[v]) continue;
        reached[v] = true;
        up[v] = u;
        from[v] = e.entry;
        queue.push_back(v);
      }
    }
  }
  const at::Tensor& weights = graph.weights();
  if (edges.empty()) return Forest(parent, at::zeros({nodes}, weights.options().requires_grad(false)));
  return Forest(parent, at::where(parent < 0, at::zeros({}, weights.options()), weights.index_select(0, entry)));
}

}  // namespace

Forest Forest::from_graph(const Graph& graph) {
  check_on_cpu("Forest::from_graph", "graph", graph.device());
  TORCH_CHECK(!graph.directed(), "Forest::from_graph: graph must be undirected, got a directed one");
  Joined joined(graph.num_nodes());
  const std::vector<Edge> edges = edges_of(graph);
  for (const Edge& e : edges) {
    TORCH_CHECK(joined.join(e.u, e.v), "Forest::from_graph: graph must have no cycle, got one through the edge ", e.u,
                " - ", e.v, "; minimum_spanning_forest takes any graph");
  }
  return rooted_forest(graph, edges);
}

Forest minimum_spanning_forest(const Graph& graph) {
  check_on_cpu("minimum_spanning_forest", "graph", graph.device());
  TORCH_CHECK(!graph.directed(), "minimum_spanning_forest: graph must be undirected, got a directed one");
  std::vector<Edge> edges = edges_of(graph);
  const at::Tensor plain = graph.weights().detach().to(at::kDouble).contiguous();
  const double* weight = plain.const_data_ptr<double>();
  std::sort(edges.begin(), edges.end(), [weight](const Edge& a, const Edge& b) {
    return std::pair(weight[a.entry], a.entry) < std::pair(weight[b.entry], b.entry);
  });
  Joined joined(graph.num_nodes());
  std::erase_if(edges, [&](const Edge& e) { return !joined.join(e.u, e.v); });
  return rooted_forest(graph, edges);
}

}  // namespace topomask

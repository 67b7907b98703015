#include <ATen/ATen.h>

#include "topomask/graph.h"

namespace topomask {
namespace {

/// Breadth-first search over one component at a time, with its scratch kept between searches.
class LevelSearch {
 public:
  explicit LevelSearch(const Graph& graph)
      : offset_(graph.offsets().const_data_ptr<int64_t>()),
        column_(graph.columns().const_data_ptr<int32_t>()),
        seen_(graph.num_nodes(), false) {}

  int64_t degree(int32_t node) const { return offset_[node + 1] - offset_[node]; }

  /// A node far from everything in the component of `start` (George and Liu 1979): as long as the search gets deeper,
  /// go on from a node of least degree in its last level.
  int32_t peripheral_node(int32_t start) {
    constexpr int kMaxSearches = 8;  // two or three settle it; the bound keeps the cost linear
    int64_t depth = -1;
    for (int search = 0; search < kMaxSearches; ++search) {
      const auto [levels, last_level] = levels_from(start);
      const auto closer = [this](int32_t a, int32_t b) { return by_degree(a, b); };
      const int32_t end = *std::min_element(order_.begin() + last_level, order_.end(), closer);
      for (int32_t node : order_) seen_[node] = false;
      if (levels <= depth) break;
      depth = levels;
      start = end;
    }
    return start;
  }

  /// Appends the component of `start` in Cuthill-McKee order: neighbours by degree, then by number. Its nodes stay
  /// seen.
  void append_component(int32_t start, std::vector<int32_t>& order) {
    size_t head = order.size();
    seen_[start] = true;
    order.push_back(start);
    for (; head < order.size(); ++head) {
      const size_t first_child = order.size();
      push_unseen_neighbours(order[head], order);
      std::sort(order.begin() + first_child, order.end(), [this](int32_t a, int32_t b) { return by_degree(a, b); });
    }
  }

  bool seen(int32_t node) const { return seen_[node]; }

 private:
  struct Levels {
    int64_t count;
    int64_t last;  // where the last level starts in order_
  };

  bool by_degree(int32_t a, int32_t b) const { return degree(a) != degree(b) ? degree(a) < degree(b) : a < b; }

  void push_unseen_neighbours(int32_t node, std::vector<int32_t>& queue) {
    for (int64_t e = offset_[node]; e < offset_[node + 1]; ++e) {
      if (seen_[column_[e]]) continue;
      seen_[column_[e]] = true;
      queue.push_back(column_[e]);
    }
  }

  Levels levels_from(int32_t start) {
    order_.assign(1, start);
    seen_[start] = true;
    Levels levels{1, 0};
    for (size_t level = 0, level_end = 1;; ++levels.count) {
      for (size_t head = level; head < level_end; ++head) push_unseen_neighbours(order_[head], order_);
      levels.last = static_cast<int64_t>(level);
      if (order_.size() == level_end) return levels;
      level = level_end;
      level_end = order_.size();
    }
  }

  const int64_t* offset_;
  const int32_t* column_;
  std::vector<bool> seen_;
  std::vector<int32_t> order_;
};

Graph symmetrised(const Graph& graph) {
  if (!graph.directed()) return graph;
  const at::Tensor rows = at::arange(graph.num_nodes(), at::kInt).repeat_interleave(graph.degrees());
  return Graph::from_edges(graph.num_nodes(), rows, graph.columns());
}

}  // namespace

at::Tensor reverse_cuthill_mckee(const Graph& graph) {
  if (!graph.device().is_cpu()) return reverse_cuthill_mckee(graph.to(at::kCPU)).to(graph.device());
  const Graph both_ways = symmetrised(graph);
  LevelSearch search(both_ways);
  std::vector<int32_t> order;
  order.reserve(graph.num_nodes());
  // The first unseen node by degree is the one of least degree in its component: a good place to look for the
  // periphery.
  const at::Tensor by_degree = std::get<1>(both_ways.degrees().sort(/*stable=*/true, /*dim=*/0, /*descending=*/false));
  const int64_t* start = by_degree.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < graph.num_nodes(); ++i) {
    const auto node = static_cast<int32_t>(start[i]);
    if (!search.seen(node)) search.append_component(search.peripheral_node(node), order);
  }
  at::Tensor result = at::empty({graph.num_nodes()}, at::kLong);
  std::copy(order.rbegin(), order.rend(), result.mutable_data_ptr<int64_t>());
  return result;
}

}  // namespace topomask

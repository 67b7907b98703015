#include "masks/forest/structure/rooted_order.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdlib>

namespace topomask {
namespace {

void fill_children(const int32_t* parent, int64_t nodes, RootedOrder& order) {
  order.child_offset.assign(nodes + 1, 0);
  for (int64_t v = 0; v < nodes; ++v) {
    if (parent[v] >= 0) ++order.child_offset[parent[v] + 1];
  }
  for (int64_t v = 0; v < nodes; ++v) order.child_offset[v + 1] += order.child_offset[v];
  order.children.resize(order.child_offset[nodes]);
  std::vector<int32_t> next(order.child_offset.begin(), order.child_offset.end() - 1);
  for (int64_t v = 0; v < nodes; ++v) {
    if (parent[v] >= 0) order.children[next[parent[v]]++] = static_cast<int32_t>(v);
  }
}

void fill_preorder(const int32_t* parent, int64_t nodes, RootedOrder& order) {
  order.preorder.reserve(nodes);
  order.preorder_parent.reserve(nodes);
  std::vector<int32_t> place(nodes), stack;
  for (int64_t root = 0; root < nodes; ++root) {
    if (parent[root] >= 0) continue;
    stack.push_back(static_cast<int32_t>(root));
    while (!stack.empty()) {
      const int32_t v = stack.back();
      stack.pop_back();
      place[v] = static_cast<int32_t>(order.preorder.size());
      order.preorder.push_back(v);
      order.preorder_parent.push_back(parent[v] < 0 ? -1 : place[parent[v]]);
      for (int32_t c = order.child_offset[v + 1]; c-- > order.child_offset[v];) stack.push_back(order.children[c]);
    }
  }
  order.subtree.assign(order.preorder.size(), 1);
  for (size_t p = order.preorder.size(); p-- > 0;) {
    if (order.preorder_parent[p] >= 0) order.subtree[order.preorder_parent[p]] += order.subtree[p];
  }
}

/// What no root leads to ends in a cycle: climb until a node comes back.
[[noreturn]] void refuse_cycle(const int32_t* parent, int64_t nodes, const std::vector<int32_t>& reached) {
  std::vector<bool> seen(nodes, false);
  for (const int32_t v : reached) seen[v] = true;
  auto v = static_cast<int32_t>(std::find(seen.begin(), seen.end(), false) - seen.begin());
  while (!seen[v]) {
    seen[v] = true;
    v = parent[v];
  }
  TORCH_CHECK(false, "Forest: parent must have no cycle, got one through node ", v);
}

/// Subtrees of up to this many nodes are not divided. It depends on N alone, so that the order does.
int64_t segment_size(int64_t nodes) {
  constexpr int64_t kLeast = 512, kSegments = 64;
  return std::max(kLeast, nodes / kSegments);
}

void fill_segments(RootedOrder& order) {
  const auto nodes = static_cast<int64_t>(order.preorder.size());
  const int64_t largest = segment_size(nodes);
  std::vector<int32_t> places, crown;
  places.reserve(nodes);
  order.segments.assign(1, 0);
  const auto end_segment = [&](int64_t least) {
    if (static_cast<int64_t>(places.size()) - order.segments.back() >= least) {
      order.segments.push_back(static_cast<int64_t>(places.size()));
    }
  };
  for (int64_t p = 0; p < nodes;) {
    if (order.subtree[p] > largest) {
      crown.push_back(static_cast<int32_t>(p++));
      continue;
    }
    // A maximal undivided subtree; its root belongs to the crown where it has a parent there.
    const int64_t end = p + order.subtree[p];
    if (order.preorder_parent[p] >= 0) crown.push_back(static_cast<int32_t>(p++));
    for (; p < end; ++p) places.push_back(static_cast<int32_t>(p));
    end_segment(largest / 2);
  }
  end_segment(1);
  places.insert(places.end(), crown.begin(), crown.end());

  order.node.resize(nodes);
  order.parent.resize(nodes);
  order.parent_entry.resize(nodes);
  std::vector<int32_t> entry(nodes);  // of a place
  for (int64_t i = 0; i < nodes; ++i) entry[places[i]] = static_cast<int32_t>(i);
  for (int64_t i = 0; i < nodes; ++i) {
    const int32_t p = places[i], v = order.preorder[p], up = order.preorder_parent[p];
    order.node[i] = v;
    order.parent[i] = up < 0 ? -1 : order.preorder[up];
    order.parent_entry[i] = up < 0 ? -1 : entry[up];
  }
  constexpr int64_t kNear = 64;
  int64_t far = 0;
  for (int64_t i = 1; i < nodes; ++i) far += std::abs(int64_t{order.node[i]} - order.node[i - 1]) > kNear;
  order.scattered = 2 * far > nodes;
}

}  // namespace

RootedOrder make_rooted_order(const int32_t* parent, int64_t nodes) {
  RootedOrder order;
  fill_children(parent, nodes, order);
  fill_preorder(parent, nodes, order);
  if (static_cast<int64_t>(order.preorder.size()) < nodes) refuse_cycle(parent, nodes, order.preorder);
  fill_segments(order);
  return order;
}

}  // namespace topomask

#include "masks/forest/structure/heavy_paths.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace topomask {
namespace {

at::Tensor as_tensor(const std::vector<int32_t>& values) {
  return at::tensor(values, at::kInt);
}

}  // namespace

HeavyPaths::HeavyPaths(const RootedOrder& order) {
  const int64_t size = order.size();
  // By place in the preorder, where a subtree is a range.
  std::vector<int32_t> heaviest(size, -1), level(size, 0);
  for (int64_t p = size; p-- > 0;) {
    const int32_t up = order.preorder_parent[p];
    // From the back: of equals the first stays.
    if (up >= 0 && (heaviest[up] < 0 || order.subtree[p] >= order.subtree[heaviest[up]])) {
      heaviest[up] = static_cast<int32_t>(p);
    }
  }
  std::vector<int32_t> tops, parents(size, -1), heavies(size, -1), counts(size + 1, 0);
  for (int64_t p = 0; p < size; ++p) {
    const int32_t up = order.preorder_parent[p], node = order.preorder[p];
    const bool goes_on = up >= 0 && heaviest[up] == p;
    if (up >= 0) level[p] = level[up] + (goes_on ? 0 : 1);
    if (!goes_on) tops.push_back(static_cast<int32_t>(p));
    if (up >= 0) parents[node] = order.preorder[up];
    if (heaviest[p] >= 0) heavies[node] = order.preorder[heaviest[p]];
    if (up >= 0 && !goes_on) ++counts[order.preorder[up] + 1];
  }
  std::stable_sort(tops.begin(), tops.end(), [&](int32_t a, int32_t b) { return level[a] < level[b]; });

  for (int64_t v = 0; v < size; ++v) counts[v + 1] += counts[v];
  std::vector<int32_t> next(counts.begin(), counts.end() - 1), children(counts[size]);
  std::vector<int32_t> path_nodes, path_offsets(1, 0);
  path_nodes.reserve(size);
  for (size_t path = 0; path < tops.size(); ++path) {
    const int32_t top = tops[path];
    if (path == 0 || level[top] != level[tops[path - 1]]) levels.push_back(static_cast<int64_t>(path));
    for (int32_t p = top; p >= 0; p = heaviest[p]) path_nodes.push_back(order.preorder[p]);
    path_offsets.push_back(static_cast<int32_t>(path_nodes.size()));
  }
  levels.push_back(static_cast<int64_t>(tops.size()));
  for (int64_t p = 0; p < size; ++p) {
    const int32_t up = order.preorder_parent[p];
    if (up >= 0 && heaviest[up] != p) children[next[order.preorder[up]]++] = order.preorder[p];
  }
  nodes = as_tensor(path_nodes);
  offsets = as_tensor(path_offsets);
  parent = as_tensor(parents);
  heavy = as_tensor(heavies);
  light_offsets = as_tensor(counts);
  light_children = as_tensor(children);
}

}  // namespace topomask

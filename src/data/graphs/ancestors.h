#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace topomask {

/// The depth of each node of a forest given by parents (−1 at roots); none where they contain a cycle, of which
/// `on_cycle` then names a node. O(N).
inline std::optional<std::vector<int64_t>> depths_of(std::span<const int64_t> parents, int64_t& on_cycle) {
  constexpr int64_t kUnknown = -1, kOpen = -2;
  std::vector<int64_t> depth(parents.size(), kUnknown), path;
  for (size_t start = 0; start < parents.size(); ++start) {
    path.clear();
    auto node = static_cast<int64_t>(start);
    while (node >= 0 && depth[static_cast<size_t>(node)] == kUnknown) {
      depth[static_cast<size_t>(node)] = kOpen;
      path.push_back(node);
      node = parents[static_cast<size_t>(node)];
    }
    if (node >= 0 && depth[static_cast<size_t>(node)] == kOpen) {
      on_cycle = node;
      return std::nullopt;
    }
    int64_t above = node < 0 ? -1 : depth[static_cast<size_t>(node)];
    for (auto at = path.rbegin(); at != path.rend(); ++at) depth[static_cast<size_t>(*at)] = ++above;
  }
  return depth;
}

}  // namespace topomask

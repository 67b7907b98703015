#include <algorithm>
#include <array>

#include "data/graphs/features.h"
#include "data/graphs/generated.h"
#include "data/philox_stream.h"

namespace topomask {
namespace {

constexpr int32_t kTreeNodes = 50;

/// A tree that is uniform among the labelled ones, from its Prüfer sequence.
std::vector<Edge> draw_tree(PhiloxStream& draws) {
  std::array<int32_t, kTreeNodes - 2> sequence{};
  std::array<int32_t, kTreeNodes> degree{};
  degree.fill(1);
  for (int32_t& node : sequence) {
    node = static_cast<int32_t>(draws.below(kTreeNodes));
    ++degree[static_cast<size_t>(node)];
  }
  std::vector<Edge> edges;
  const auto lowest_leaf = [&] {
    return static_cast<int32_t>(std::find(degree.begin(), degree.end(), 1) - degree.begin());
  };
  for (const int32_t node : sequence) {
    const int32_t leaf = lowest_leaf();
    edges.emplace_back(leaf, node);
    --degree[static_cast<size_t>(leaf)];
    --degree[static_cast<size_t>(node)];
  }
  const int32_t first = lowest_leaf();
  --degree[static_cast<size_t>(first)];
  edges.emplace_back(first, lowest_leaf());
  return edges;
}

using Distances = std::array<std::array<int32_t, kTreeNodes>, kTreeNodes>;

/// Edges between all pairs of nodes, by breadth-first search from each.
Distances distances_in(const std::vector<Edge>& edges) {
  std::array<std::vector<int32_t>, kTreeNodes> neighbours;
  for (const auto& [from, to] : edges) {
    neighbours[static_cast<size_t>(from)].push_back(to);
    neighbours[static_cast<size_t>(to)].push_back(from);
  }
  Distances distance{};
  for (int32_t start = 0; start < kTreeNodes; ++start) {
    auto& row = distance[static_cast<size_t>(start)];
    row.fill(-1);
    row[static_cast<size_t>(start)] = 0;
    std::vector<int32_t> queue{start};
    for (size_t at = 0; at < queue.size(); ++at) {
      for (const int32_t next : neighbours[static_cast<size_t>(queue[at])]) {
        if (row[static_cast<size_t>(next)] >= 0) continue;
        row[static_cast<size_t>(next)] = row[static_cast<size_t>(queue[at])] + 1;
        queue.push_back(next);
      }
    }
  }
  return distance;
}

/// A pair of nodes: farthest apart, or nearer than that but no neighbours. None where the tree is a star.
std::vector<Edge> candidates(const Distances& distance, bool farthest) {
  int32_t diameter = 0;
  for (const auto& row : distance) diameter = std::max(diameter, *std::max_element(row.begin(), row.end()));
  std::vector<Edge> pairs;
  for (int32_t i = 1; i < kTreeNodes; ++i) {
    for (int32_t j = 0; j < i; ++j) {
      const int32_t apart = distance[static_cast<size_t>(i)][static_cast<size_t>(j)];
      if (farthest ? apart == diameter && diameter > 2 : apart >= 2 && apart < diameter) pairs.emplace_back(j, i);
    }
  }
  return pairs;
}

}  // namespace

LoadedGraphs open_cycle(const GraphDataOptions& options) {
  GeneratedSet graphs;
  GraphSplit split = generate_parts(options, graphs, [&](uint32_t part, int64_t i, GeneratedSet& out) {
    PhiloxStream draws(options.seed, part, i, DrawFor::cycle);
    const int64_t label = i % 2;
    std::vector<Edge> edges, pairs;
    while (pairs.empty()) {
      edges = draw_tree(draws);
      pairs = candidates(distances_in(edges), /*farthest=*/label == 1);
    }
    edges.push_back(pairs[static_cast<size_t>(draws.below(static_cast<int64_t>(pairs.size())))]);
    out.add(kTreeNodes, edges, label);
  });
  GraphSet set = graphs.finish("cycle", {"shorter", "longest"});
  if (options.features == "given") set.features = standardised_degrees(set.graph, set.offsets);
  return {std::move(set), std::move(split)};
}

}  // namespace topomask

#include <algorithm>

#include "data/graphs/features.h"
#include "data/graphs/generated.h"
#include "data/graphs/names.h"
#include "data/philox_stream.h"

namespace topomask {
namespace {

constexpr int32_t kHostNodes = 100;
constexpr double kJoinProbability = 0.004;
constexpr int64_t kNeighbourDegrees = 5;

struct MotifShape {
  int32_t nodes;
  std::vector<Edge> edges;
  double host_probability;  ///< of an edge; Choromanski et al. (2022) chose one for each motif
};

/// Rungs between two paths, or two rings, of `length` nodes.
std::vector<Edge> ladder_edges(int32_t length, bool closed) {
  std::vector<Edge> edges;
  for (int32_t i = 0; i < length; ++i) {
    edges.emplace_back(i, length + i);
    if (i + 1 == length && !closed) continue;
    const int32_t next = (i + 1) % length;
    edges.emplace_back(i, next);
    edges.emplace_back(length + i, length + next);
  }
  return edges;
}

MotifShape motif_shape(Motif motif) {
  switch (motif) {
    case Motif::caveman:  // three triangles, one node of each in a fourth
      return {
          9, {{0, 1}, {0, 2}, {1, 2}, {3, 4}, {3, 5}, {4, 5}, {6, 7}, {6, 8}, {7, 8}, {2, 5}, {2, 8}, {5, 8}}, .027};
    case Motif::cycle: {
      std::vector<Edge> edges;
      for (int32_t i = 0; i < 10; ++i) edges.emplace_back(i, (i + 1) % 10);
      return {10, edges, .018};
    }
    case Motif::grid: {
      std::vector<Edge> edges;
      for (int32_t i = 0; i < 9; ++i) {
        if (i % 3 < 2) edges.emplace_back(i, i + 1);
        if (i < 6) edges.emplace_back(i, i + 3);
      }
      return {9, edges, .026666};
    }
    case Motif::ladder:
      return {10, ladder_edges(5, false), .026};
    case Motif::circular_ladder:
      return {10, ladder_edges(5, true), .03};
  }
  TORCH_INTERNAL_ASSERT(false);
}

struct Host {
  int32_t nodes = 0;
  std::vector<Edge> edges;
};

/// An Erdős–Rényi graph without its isolated nodes.
Host draw_host(PhiloxStream& draws, double probability) {
  Host host;
  while (host.edges.empty()) {
    for (int32_t i = 1; i < kHostNodes; ++i) {
      for (int32_t j = 0; j < i; ++j) {
        if (draws.with_probability(probability)) host.edges.emplace_back(j, i);
      }
    }
  }
  std::vector<int32_t> place(kHostNodes, -1);
  for (const auto& [from, to] : host.edges) place[static_cast<size_t>(from)] = place[static_cast<size_t>(to)] = 0;
  for (int32_t& p : place) {
    if (p == 0) p = host.nodes++;
  }
  for (auto& [from, to] : host.edges) {
    from = place[static_cast<size_t>(from)];
    to = place[static_cast<size_t>(to)];
  }
  return host;
}

/// Uniform among the graphs with these numbers of nodes and edges that have no isolated node: such a node would tell a
/// negative from a positive, which has none.
std::vector<Edge> draw_random_motif(PhiloxStream& draws, const MotifShape& shape) {
  std::vector<Edge> pairs;
  for (int32_t i = 1; i < shape.nodes; ++i) {
    for (int32_t j = 0; j < i; ++j) pairs.emplace_back(j, i);
  }
  const size_t count = shape.edges.size();
  for (;;) {
    for (size_t k = 0; k < count; ++k) {
      std::swap(pairs[k], pairs[k + static_cast<size_t>(draws.below(static_cast<int64_t>(pairs.size() - k)))]);
    }
    std::vector<bool> reached(static_cast<size_t>(shape.nodes));
    for (size_t k = 0; k < count; ++k) {
      reached[static_cast<size_t>(pairs[k].first)] = reached[static_cast<size_t>(pairs[k].second)] = true;
    }
    if (std::find(reached.begin(), reached.end(), false) == reached.end()) {
      return {pairs.begin(), pairs.begin() + static_cast<int64_t>(count)};
    }
  }
}

/// Each pair of a host node and a motif node with a small probability, drawn again until there is one.
void join(PhiloxStream& draws, int32_t host_nodes, int32_t motif_nodes, std::vector<Edge>& edges) {
  const size_t before = edges.size();
  while (edges.size() == before) {
    for (int32_t m = 0; m < motif_nodes; ++m) {
      for (int32_t h = 0; h < host_nodes; ++h) {
        if (draws.with_probability(kJoinProbability)) edges.emplace_back(h, host_nodes + m);
      }
    }
  }
}

}  // namespace

LoadedGraphs open_motif(const GraphDataOptions& options) {
  const Motif motif = kMotifNames.parse(kOpenGraphs, "data.motif", options.motif);
  const MotifShape shape = motif_shape(motif);
  GeneratedSet graphs;
  GraphSplit split = generate_parts(options, graphs, [&](uint32_t part, int64_t i, GeneratedSet& out) {
    // Graphs 2k and 2k + 1 have one host: streams 3k, 3k + 1 and 3k + 2 are for it and for what each adds.
    const int64_t pair = i / 2, label = i % 2;
    PhiloxStream host_draws(options.seed, part, 3 * pair, DrawFor::motif);
    PhiloxStream draws(options.seed, part, 3 * pair + 1 + label, DrawFor::motif);
    const Host host = draw_host(host_draws, shape.host_probability);
    std::vector<Edge> edges = host.edges;
    for (const auto& [from, to] : label == 1 ? shape.edges : draw_random_motif(draws, shape)) {
      edges.emplace_back(host.nodes + from, host.nodes + to);
    }
    join(draws, host.nodes, shape.nodes, edges);
    out.add(host.nodes + shape.nodes, edges, label);
  });
  GraphSet set = graphs.finish("motif " + options.motif, {"random", options.motif});
  if (options.features == "given") set.features = largest_neighbour_degrees(set.graph, kNeighbourDegrees);
  return {std::move(set), std::move(split)};
}

}  // namespace topomask

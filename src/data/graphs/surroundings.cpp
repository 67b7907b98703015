#include "data/graphs/surroundings.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <unordered_set>

#include "data/random_order.h"

namespace topomask {
namespace {

/// `count` of 0 … range − 1, distinct: Floyd's algorithm (Bentley and Floyd, 1987). `word(i)` is the i-th random word.
template <class Words>
void draw_distinct(int64_t range, int64_t count, const Words& word, std::vector<int64_t>& drawn) {
  drawn.clear();
  for (int64_t last = range - count; last < range; ++last) {
    const int64_t place = random_below(word(drawn.size()), static_cast<uint32_t>(last + 1));
    drawn.push_back(std::find(drawn.begin(), drawn.end(), place) == drawn.end() ? place : last);
  }
}

}  // namespace

std::vector<int64_t> sample_surroundings(const Graph& graph, at::IntArrayRef seeds, int64_t hops, int64_t fanout,
                                         uint64_t seed, uint32_t draw) {
  const int64_t* offset = graph.offsets().const_data_ptr<int64_t>();
  const int32_t* column = graph.columns().const_data_ptr<int32_t>();
  const PhiloxKey key = philox_key(seed);
  std::unordered_set<int64_t> seen(seeds.begin(), seeds.end());
  std::vector<int64_t> frontier(seen.begin(), seen.end()), next, drawn;
  for (int64_t hop = 0; hop < hops; ++hop) {
    next.clear();
    for (const int64_t node : frontier) {
      const int64_t first = offset[node], degree = offset[node + 1] - first;
      const auto add = [&](int64_t place) {
        if (seen.insert(column[first + place]).second) next.push_back(column[first + place]);
      };
      if (degree <= fanout) {
        for (int64_t place = 0; place < degree; ++place) add(place);
        continue;
      }
      // A node is new once, so that (node, draw) tells its random numbers from all others of the seed.
      const auto word = [&](size_t i) {
        const PhiloxWords words = philox(
            {static_cast<uint32_t>(node), static_cast<uint32_t>(i / 4), draw, static_cast<uint32_t>(DrawFor::fanout)},
            key);
        return i % 4 == 0 ? words.a : i % 4 == 1 ? words.b : i % 4 == 2 ? words.c : words.d;
      };
      draw_distinct(degree, fanout, word, drawn);
      for (const int64_t place : drawn) add(place);
    }
    frontier.swap(next);
  }
  std::vector<int64_t> nodes(seen.begin(), seen.end());
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

GraphSet induced_set(const GraphSet& set, at::IntArrayRef nodes) {
  const at::Tensor places = at::tensor(nodes, at::kLong);
  const auto count = static_cast<int64_t>(nodes.size());
  GraphSet part{.name = set.name,
                .graph = induced_subgraph(set.graph, places),
                .offsets = at::tensor({int64_t{0}, count}, at::kLong),
                .features = set.features.index_select(0, places),
                .labels = set.node_labels ? set.labels.index_select(0, places) : set.labels,
                .node_labels = set.node_labels,
                .classes = set.classes};
  if (!set.parents.defined()) return part;
  const at::Tensor old = set.parents.index_select(0, places),
                   found = at::searchsorted(places, old).clamp_max(count - 1);
  part.parents = at::where(places.index_select(0, found.clamp_min(0)) == old, found, -1);
  return part;
}

}  // namespace topomask

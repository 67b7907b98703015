#include <ATen/ATen.h>

#include "topomask/data/graph_set.h"

namespace topomask {
namespace {

/// The nodes of the graphs, one graph after another.
struct Chosen {
  std::vector<int64_t> first_node;   ///< of each graph, in the set
  std::vector<int64_t> first_place;  ///< of each graph, in the sample; and the end
  int64_t entries = 0;
};

Chosen choose(const GraphSet& set, at::IntArrayRef graphs) {
  TORCH_CHECK(set.graph.device().is_cpu(), "take: set must be on the CPU, got ", set.graph.device());
  const int64_t* first = set.offsets.const_data_ptr<int64_t>();
  const int64_t* offset = set.graph.offsets().const_data_ptr<int64_t>();
  Chosen chosen{.first_place = {0}};
  for (const int64_t g : graphs) {
    TORCH_CHECK(g >= 0 && g < set.size(), "take: graphs must be from 0 to ", set.size() - 1, ", got ", g);
    chosen.first_node.push_back(first[g]);
    chosen.first_place.push_back(chosen.first_place.back() + first[g + 1] - first[g]);
    chosen.entries += offset[first[g + 1]] - offset[first[g]];
  }
  return chosen;
}

Graph chosen_graph(const GraphSet& set, const Chosen& chosen) {
  const int64_t nodes = chosen.first_place.back();
  at::Tensor offsets = at::zeros({nodes + 1}, at::kLong), columns = at::empty({chosen.entries}, at::kInt);
  const int64_t* from_offset = set.graph.offsets().const_data_ptr<int64_t>();
  const int32_t* from_column = set.graph.columns().const_data_ptr<int32_t>();
  int64_t* offset = offsets.mutable_data_ptr<int64_t>();
  int32_t* column = columns.mutable_data_ptr<int32_t>();
  std::vector<at::Tensor> weights{set.graph.weights().narrow(0, 0, 0)};
  int64_t entry = 0;
  for (size_t g = 0; g < chosen.first_node.size(); ++g) {
    const int64_t first = chosen.first_node[g], place = chosen.first_place[g];
    const int64_t count = chosen.first_place[g + 1] - place, begin = from_offset[first];
    for (int64_t i = 0; i < count; ++i) offset[place + i + 1] = entry + from_offset[first + i + 1] - begin;
    const int64_t end = from_offset[first + count];
    for (int64_t e = begin; e < end; ++e) {
      const int64_t inside = from_column[e] - first;
      TORCH_CHECK(inside >= 0 && inside < count, "take: set.graph must not connect two graphs, got an edge to node ",
                  from_column[e], " from a graph of nodes ", first, " … ", first + count - 1);
      column[entry++] = static_cast<int32_t>(place + inside);
    }
    weights.push_back(set.graph.weights().narrow(0, begin, end - begin));
  }
  return Graph::from_csr(offsets, columns, at::cat(weights), set.graph.directed());
}

}  // namespace

GraphSample take(const GraphSet& set, at::IntArrayRef graphs) {
  const Chosen chosen = choose(set, graphs);
  const int64_t nodes = chosen.first_place.back();
  GraphSample sample{.graph = chosen_graph(set, chosen), .graphs = static_cast<int64_t>(graphs.size())};
  sample.membership = at::empty({nodes}, at::kLong);
  sample.nodes = at::empty({nodes}, at::kLong);
  int64_t* member = sample.membership.mutable_data_ptr<int64_t>();
  int64_t* node = sample.nodes.mutable_data_ptr<int64_t>();
  for (size_t g = 0; g < chosen.first_node.size(); ++g) {
    for (int64_t i = chosen.first_place[g]; i < chosen.first_place[g + 1]; ++i) {
      member[i] = static_cast<int64_t>(g);
      node[i] = chosen.first_node[g] + i - chosen.first_place[g];
    }
  }
  sample.features = set.features.index_select(0, sample.nodes);
  sample.labels = set.labels.index_select(0, set.node_labels ? sample.nodes : at::tensor(graphs, at::kLong));
  if (!set.parents.defined()) return sample;
  sample.parents = set.parents.index_select(0, sample.nodes);
  int64_t* parent = sample.parents.mutable_data_ptr<int64_t>();
  for (size_t g = 0; g < chosen.first_node.size(); ++g) {
    const int64_t moved = chosen.first_place[g] - chosen.first_node[g];
    for (int64_t i = chosen.first_place[g]; i < chosen.first_place[g + 1]; ++i) parent[i] += parent[i] < 0 ? 0 : moved;
  }
  return sample;
}

}  // namespace topomask

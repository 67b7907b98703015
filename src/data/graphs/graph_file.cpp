#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/out_of_memory.h"
#include "data/graphs/features.h"
#include "data/graphs/readers.h"
#include "data/graphs/splits.h"
#include "data/random_order.h"
#include "topomask/graph_io.h"

namespace topomask {
namespace {

/// Readers name themselves; what fails here is data that was to be opened.
Graph read_named_graph(const std::string& path) {
  try {
    return read_graph(path);
  } catch (const c10::Error& error) {
    TORCH_CHECK(false, kOpenGraphs, ": ", error_text(error));
  }
}

/// Which of `count` nodes, drawn by seed, is nearest in hops, the first of them among equals; −1 where none leads
/// there. Breadth first from all of them at once, O(N + E).
at::Tensor region_labels(const Graph& graph, int64_t count, uint64_t seed) {
  const int64_t nodes = graph.num_nodes();
  const int64_t* offset = graph.offsets().const_data_ptr<int64_t>();
  const int32_t* column = graph.columns().const_data_ptr<int32_t>();
  at::Tensor labels = at::full({nodes}, -1, at::kLong);
  int64_t* label = labels.mutable_data_ptr<int64_t>();
  std::vector<int64_t> reached = random_order(nodes, seed, /*stream=*/0, DrawFor::regions);
  reached.resize(static_cast<size_t>(std::min(count, nodes)));
  for (size_t r = 0; r < reached.size(); ++r) label[reached[r]] = static_cast<int64_t>(r);
  // A front holds its nodes by ascending label, so that the first to reach a node is the first among equals.
  for (size_t first = 0, last = reached.size(); first < last; first = std::exchange(last, reached.size())) {
    std::stable_sort(reached.begin() + static_cast<int64_t>(first), reached.begin() + static_cast<int64_t>(last),
                     [label](int64_t a, int64_t b) { return label[a] < label[b]; });
    for (size_t next = first; next < last; ++next) {
      const int64_t node = reached[next];
      for (int64_t e = offset[node]; e < offset[node + 1]; ++e) {
        if (label[column[e]] >= 0) continue;
        label[column[e]] = label[node];
        reached.push_back(column[e]);
      }
    }
  }
  return labels;
}

}  // namespace

LoadedGraphs open_graph_file(const GraphDataOptions& options) {
  const io::Origin origin{kOpenGraphs, options.path};
  refuse_packed(origin);
  if (options.features == "given") {
    io::fail(origin, "a file of edges has no features: data.features must be degree, one_hot_degree or constant, ",
             "got given");
  }
  Graph graph = read_named_graph(options.path);
  const int64_t nodes = graph.num_nodes();
  GraphSet set{.name = std::filesystem::path(options.path).stem().string(),
               .graph = std::move(graph),
               .offsets = int64_tensor({0, nodes}),
               .labels = at::full({nodes}, -1, at::kLong),
               .node_labels = true};
  if (options.labels == "none") {
    GraphSplit split = split_by_fraction(set.labels, options);
    split.by_node = true;
    return {std::move(set), std::move(split)};
  }
  const int64_t regions = std::min(options.regions, nodes);
  set.labels = region_labels(set.graph, regions, options.seed);
  for (int64_t r = 0; r < regions; ++r) set.classes.push_back("region " + std::to_string(r));
  GivenSplit drawn = split_with_given(set.labels, options);
  const at::Tensor own = structural_features(set.graph, options);
  check_feature_size(origin, nodes, own.size(1) + regions);
  set.features = at::cat({own, given_label_features(set.labels, regions, drawn.given)}, 1);
  return {std::move(set), std::move(drawn.split)};
}

}  // namespace topomask

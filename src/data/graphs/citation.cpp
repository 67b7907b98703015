#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "data/graphs/features.h"
#include "data/graphs/npz_arrays.h"
#include "data/graphs/splits.h"

namespace topomask {
namespace {

constexpr int64_t kMostNodes = std::numeric_limits<int32_t>::max();

Graph citation_graph(NpzArrays& arrays, int64_t nodes) {
  const std::vector<int64_t> source = arrays.integers("src", 0, nodes), target = arrays.integers("dst", 0, nodes);
  if (source.size() != target.size()) {
    arrays.refuse("dst", "must be as long as src, ", source.size(), ", got ", target.size());
  }
  return Graph::from_edges(nodes, int64_tensor(source), int64_tensor(target));
}

/// The CSR matrix x_indptr, x_indices, x_data (ones where absent) of shape x_shape, made dense.
at::Tensor citation_features(NpzArrays& arrays, int64_t nodes) {
  const std::vector<int64_t> shape = arrays.integers("x_shape", 0, int64_t{1} << 31);
  if (shape.size() != 2 || shape[0] != nodes) {
    arrays.refuse("x_shape", "must be [", nodes, " (the length of y), features], got ", at::IntArrayRef(shape));
  }
  const int64_t columns = shape[1];
  const std::vector<int64_t> indices = arrays.integers("x_indices", 0, columns);
  const auto entries = static_cast<int64_t>(indices.size());
  const std::vector<int64_t> first = arrays.integers("x_indptr", 0, entries + 1);
  const std::vector<float> values =
      arrays.has("x_data") ? arrays.numbers("x_data") : std::vector<float>(indices.size(), 1.0F);
  if (static_cast<int64_t>(first.size()) != nodes + 1 || first.front() != 0 || first.back() != entries ||
      !std::is_sorted(first.begin(), first.end())) {
    arrays.refuse("x_indptr", "must ascend from 0 to ", entries, ", the length of x_indices, in ", nodes + 1, " steps");
  }
  if (values.size() != indices.size()) {
    arrays.refuse("x_data", "must be as long as x_indices, ", indices.size(), ", got ", values.size());
  }
  // Empty columns cost no bytes in the file: a short one must not make a matrix of gigabytes.
  constexpr int64_t kSparsest = 65536;
  if (columns > kSparsest * (entries + 1) / std::max<int64_t>(nodes, 1)) {
    arrays.refuse("x_shape", "must have at most ", kSparsest, " values for each of the ", entries,
                  " entries of x_indices, got ", at::IntArrayRef(shape));
  }
  check_feature_size(arrays.origin(), nodes, columns);
  at::Tensor features = at::zeros({nodes, columns});
  float* out = features.mutable_data_ptr<float>();
  for (int64_t i = 0; i < nodes; ++i, out += columns) {
    for (int64_t e = first[static_cast<size_t>(i)]; e < first[static_cast<size_t>(i + 1)]; ++e) {
      out[indices[static_cast<size_t>(e)]] += values[static_cast<size_t>(e)];
    }
  }
  return features;
}

}  // namespace

LoadedGraphs open_citation(const GraphDataOptions& options) {
  NpzArrays arrays(options.path);
  // A class costs a name: more of them than an int16 counts are no classes.
  const std::vector<int64_t> labels = arrays.integers("y", -1, 1 << 15);
  const auto nodes = static_cast<int64_t>(labels.size());
  if (nodes > kMostNodes) arrays.refuse("y", "must have fewer than 2^31 nodes, got ", nodes);
  GraphSet set{.name = std::filesystem::path(options.path).stem().string(),
               .graph = citation_graph(arrays, nodes),
               .offsets = int64_tensor({0, nodes}),
               .labels = int64_tensor(labels),
               .node_labels = true};
  if (options.features == "given") set.features = citation_features(arrays, nodes);
  const int64_t classes = labels.empty() ? 0 : *std::max_element(labels.begin(), labels.end()) + 1;
  for (int64_t c = 0; c < classes; ++c) set.classes.push_back(std::to_string(c));
  GraphSplit split = split_by_class(arrays.origin(), set.labels, set.classes, options);
  split.by_node = true;
  return {std::move(set), std::move(split)};
}

}  // namespace topomask

#include "data/graphs/features.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "data/graphs/names.h"
#include "data/graphs/readers.h"

namespace topomask {
namespace {

/// The nodes that are trained on: what a split names, or all nodes of the graphs that it names.
at::Tensor training_nodes(const LoadedGraphs& loaded) {
  if (loaded.split.by_node) return int64_tensor(loaded.split.train);
  const int64_t* offset = loaded.set.offsets.const_data_ptr<int64_t>();
  std::vector<int64_t> nodes;
  for (const int64_t g : loaded.split.train) {
    for (int64_t i = offset[g]; i < offset[g + 1]; ++i) nodes.push_back(i);
  }
  return int64_tensor(nodes);
}

}  // namespace

void check_feature_size(const io::Origin& origin, int64_t nodes, int64_t columns) {
  constexpr int64_t kLargest = int64_t{1} << 32;  // values of four bytes
  if (columns > 0 && nodes > kLargest / columns) {
    io::fail(origin, "features of ", nodes, " nodes with ", columns, " columns would take more than 16 GiB");
  }
}

at::Tensor structural_features(const Graph& graph, const GraphDataOptions& options) {
  const int64_t nodes = graph.num_nodes();
  switch (kNodeFeatureNames.parse("structural_features", "features", options.features)) {
    case NodeFeatures::degree:
      return graph.degrees().to(at::kFloat).unsqueeze(1);
    case NodeFeatures::one_hot_degree: {
      check_feature_size({kOpenGraphs, "data.degree_limit"}, nodes, options.degree_limit + 1);
      const at::Tensor column = graph.degrees().clamp_max(options.degree_limit).unsqueeze(1);
      return at::zeros({nodes, options.degree_limit + 1}).scatter_(1, column, 1.0);
    }
    case NodeFeatures::constant:
      return at::ones({nodes, 1});
    case NodeFeatures::given:
      break;
  }
  TORCH_INTERNAL_ASSERT(false, "given features are not structural");
}

at::Tensor largest_neighbour_degrees(const Graph& graph, int64_t count) {
  const int64_t nodes = graph.num_nodes();
  at::Tensor features = at::zeros({nodes, count});
  const int64_t* offset = graph.offsets().const_data_ptr<int64_t>();
  const int32_t* column = graph.columns().const_data_ptr<int32_t>();
  float* out = features.mutable_data_ptr<float>();
  std::vector<int64_t> degrees;
  for (int64_t i = 0; i < nodes; ++i, out += count) {
    degrees.clear();
    for (int64_t e = offset[i]; e < offset[i + 1]; ++e) degrees.push_back(offset[column[e] + 1] - offset[column[e]]);
    const auto kept = std::min<int64_t>(count, static_cast<int64_t>(degrees.size()));
    std::partial_sort(degrees.begin(), degrees.begin() + kept, degrees.end(), std::greater<>());
    std::copy_n(degrees.begin(), kept, out);
  }
  return features;
}

at::Tensor standardised_degrees(const Graph& graph, const at::Tensor& offsets) {
  at::Tensor features = at::zeros({graph.num_nodes(), 1});
  const int64_t* first = offsets.const_data_ptr<int64_t>();
  const int64_t* offset = graph.offsets().const_data_ptr<int64_t>();
  float* out = features.mutable_data_ptr<float>();
  for (int64_t g = 0; g + 1 < offsets.size(0); ++g) {
    double sum = 0, squares = 0;
    for (int64_t i = first[g]; i < first[g + 1]; ++i) {
      const auto degree = static_cast<double>(offset[i + 1] - offset[i]);
      sum += degree;
      squares += degree * degree;
    }
    const auto count = static_cast<double>(first[g + 1] - first[g]);
    // The sums are whole numbers: equal degrees give exactly 0.
    const double deviation = std::sqrt(count * squares - sum * sum);
    if (!(deviation > 0)) continue;
    for (int64_t i = first[g]; i < first[g + 1]; ++i) {
      out[i] = static_cast<float>((count * static_cast<double>(offset[i + 1] - offset[i]) - sum) / deviation);
    }
  }
  return features;
}

void scale_features(LoadedGraphs& loaded, const GraphDataOptions& options) {
  at::Tensor& features = loaded.set.features;
  switch (kFeatureScalingNames.parse(kOpenGraphs, "data.scaling", options.scaling)) {
    case FeatureScaling::none:
      return;
    case FeatureScaling::rows: {
      const at::Tensor sums = features.abs().sum(1, /*keepdim=*/true);
      features.div_(sums.masked_fill(sums == 0, 1));
      return;
    }
    case FeatureScaling::columns: {
      const at::Tensor nodes = training_nodes(loaded);
      if (nodes.size(0) == 0) return;
      const at::Tensor trained_on = features.index_select(0, nodes), mean = trained_on.mean(0);
      const at::Tensor variance = (trained_on - mean).square().mean(0);
      features.sub_(mean).div_(variance.sqrt().masked_fill(variance == 0, 1));
      return;
    }
  }
}

}  // namespace topomask

#include "data/graphs/generated.h"

#include <ATen/ATen.h>

namespace topomask {

void GeneratedSet::add(int64_t nodes, const std::vector<Edge>& edges, int64_t label) {
  const auto first = static_cast<int32_t>(offsets_.back());
  for (const auto& [from, to] : edges) {
    source_.push_back(first + from);
    target_.push_back(first + to);
  }
  TORCH_CHECK(offsets_.back() + nodes < (int64_t{1} << 31), kOpenGraphs,
              ": data.generated_train and the like must give fewer than 2^31 nodes");
  offsets_.push_back(offsets_.back() + nodes);
  labels_.push_back(label);
}

GraphSet GeneratedSet::finish(const std::string& name, std::vector<std::string> classes) const {
  return {.name = name,
          .graph = Graph::from_edges(offsets_.back(), at::tensor(source_, at::kInt), at::tensor(target_, at::kInt), {},
                                     {.duplicates = Duplicates::refuse, .self_loops = SelfLoops::refuse}),
          .offsets = int64_tensor(offsets_),
          .labels = int64_tensor(labels_),
          .classes = std::move(classes)};
}

}  // namespace topomask

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "core/move.h"
#include "masks/encodings/breadth_first_kernel.h"
#include "topomask/encodings.h"

namespace topomask {

at::Tensor shortest_paths(const Graph& graph, const ShortestPathOptions& options) {
  check_on_cpu("shortest_paths", "graph", graph.device());
  const int64_t nodes = graph.num_nodes();
  TORCH_CHECK(options.max_entries >= 0, "shortest_paths: max_entries must be >= 0, got ", options.max_entries);
  TORCH_CHECK(nodes == 0 || nodes <= options.max_entries / nodes,
              "shortest_paths: graph must have at most max_entries = ", options.max_entries, " pairs of nodes, got ",
              nodes, " nodes");
  const at::Tensor distances = at::empty({nodes, nodes}, at::kInt);
  const BreadthFirstArgs args{graph.offsets().const_data_ptr<int64_t>(), graph.columns().const_data_ptr<int32_t>(),
                              nodes, distances.mutable_data_ptr<int32_t>()};
  const int64_t groups = (nodes + kSearches - 1) / kSearches;
  at::parallel_for(0, groups, 1, [&](int64_t begin, int64_t end) {
    std::vector<uint64_t> words(3 * nodes);
    std::vector<int32_t> active(nodes + 1), touched(nodes + 1);
    const BreadthFirstWorkspace workspace{words.data(), words.data() + nodes, words.data() + 2 * nodes, active.data(),
                                          touched.data()};
    for (int64_t group = begin; group < end; ++group) {
      const int64_t first = group * kSearches;
      breadth_first_rows(args, workspace, first, std::min(kSearches, nodes - first));
    }
  });
  return distances;
}

}  // namespace topomask

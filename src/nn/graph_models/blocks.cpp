#include "nn/graph_models/blocks.h"

#include <ATen/ATen.h>

namespace topomask {

at::Tensor range_places(const at::Tensor& first, const at::Tensor& last) {
  const at::Tensor lengths = last - first, starts = lengths.cumsum(0) - lengths;
  const int64_t total = lengths.numel() == 0 ? 0 : lengths.sum().item<int64_t>();
  return at::arange(total, first.options()) + at::repeat_interleave(first - starts, lengths, std::nullopt, total);
}

at::Tensor offsets_of(const at::Tensor& counts) {
  return at::cat({at::zeros({1}, counts.options()), counts.cumsum(0)});
}

Graph graph_at(const GraphSet& set, int64_t place) {
  const int64_t first = set.offsets[place].item<int64_t>(), last = set.offsets[place + 1].item<int64_t>();
  const at::Tensor offsets = set.graph.offsets().slice(0, first, last + 1);
  const int64_t begin = offsets[0].item<int64_t>(), end = offsets[-1].item<int64_t>();
  const at::Tensor columns = (set.graph.columns().slice(0, begin, end) - first).contiguous();
  auto pattern = std::make_shared<SparsePattern>(last - first, last - first, (offsets - begin).contiguous(), columns);
  return Graph::from_pattern(std::move(pattern), set.graph.weights().slice(0, begin, end).contiguous(),
                             set.graph.directed());
}

PatternPtr pairs_inside(const at::Tensor& offsets, int64_t most, const char* what) {
  const at::Tensor sizes = offsets.diff();
  const int64_t nodes = offsets[-1].item<int64_t>();
  const double pairs = sizes.to(at::kDouble).square().sum().item<double>();
  TORCH_CHECK(pairs <= static_cast<double>(most), "graph model: ", what,
              " compares all pairs of nodes of a graph, which must be at most max_entries = ", most, ", got ", pairs,
              " for ", nodes, " nodes");
  const auto of_rows = [&](const at::Tensor& graphs) {
    return at::repeat_interleave(graphs, sizes, std::nullopt, nodes);
  };
  const at::Tensor first = of_rows(offsets.slice(0, 0, -1)), last = of_rows(offsets.slice(0, 1));
  return std::make_shared<SparsePattern>(nodes, nodes, offsets_of(last - first),
                                         range_places(first, last).to(at::kInt));
}

}  // namespace topomask

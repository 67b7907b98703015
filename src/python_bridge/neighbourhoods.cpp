#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "graph/csr.h"
#include "python_bridge/objects.h"

namespace topomask::python {
namespace {

/// Breadth-first search from one node after the other; what it needs is kept from row to row.
class Ball {
 public:
  explicit Ball(const SparsePattern& pattern) : pattern_(pattern), seen_(static_cast<size_t>(pattern.rows()), -1) {}

  /// The nodes within `hops` edges of `start`, itself included, in the order in which they are met.
  const std::vector<int32_t>& around(int64_t start, int64_t hops) {
    const int64_t* offset = pattern_.offsets().const_data_ptr<int64_t>();
    const int32_t* column = pattern_.columns().const_data_ptr<int32_t>();
    nodes_.assign(1, static_cast<int32_t>(start));
    seen_[start] = start;
    size_t next = 0;  // nodes before it have been left
    for (int64_t hop = 0; hop < hops && next < nodes_.size(); ++hop) {
      for (const size_t end = nodes_.size(); next < end; ++next) {
        const int32_t node = nodes_[next];
        for (int64_t e = offset[node]; e < offset[node + 1]; ++e) {
          if (seen_[column[e]] == start) continue;
          seen_[column[e]] = start;
          nodes_.push_back(column[e]);
        }
      }
    }
    return nodes_;
  }

 private:
  const SparsePattern& pattern_;
  std::vector<int64_t> seen_;  // the last start from which a node was met
  std::vector<int32_t> nodes_;
};

}  // namespace

PatternPtr neighbourhoods(const Graph& graph, int64_t hops, int64_t max_entries) {
  const char* op = "Graph.neighbourhoods";
  TORCH_CHECK(hops >= 0, op, ": hops must be >= 0, got ", hops);
  const Graph here = graph.to(at::TensorOptions().device(at::kCPU));
  const SparsePattern& pattern = *here.pattern();
  const int64_t rows = pattern.rows(), grain = std::max<int64_t>(1, rows / (8 * at::get_num_threads()));
  // Rows are searched once, in parts, and joined: a search costs more than a copy.
  const int64_t parts = rows == 0 ? 0 : (rows + grain - 1) / grain;
  std::vector<std::vector<int32_t>> columns(static_cast<size_t>(parts));
  at::Tensor offsets = at::zeros({rows + 1}, at::kLong);
  int64_t* offset = offsets.mutable_data_ptr<int64_t>();
  at::parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
    Ball ball(pattern);
    for (int64_t part = begin; part < end; ++part) {
      std::vector<int32_t>& found = columns[part];
      for (int64_t i = part * grain; i < std::min(rows, (part + 1) * grain); ++i) {
        const std::vector<int32_t>& nodes = ball.around(i, hops);
        offset[i + 1] = std::ssize(nodes);
        found.insert(found.end(), nodes.begin(), nodes.end());
        std::sort(found.end() - std::ssize(nodes), found.end());
        TORCH_CHECK(std::ssize(found) <= max_entries, op, ": max_entries must allow the neighbourhoods, got ",
                    max_entries);
      }
    }
  });
  accumulate_offsets(op, offsets);
  TORCH_CHECK(offset[rows] <= max_entries, op, ": max_entries must allow ", offset[rows], " entries, got ",
              max_entries);
  at::Tensor all = at::empty({offset[rows]}, at::kInt);
  for (int64_t part = 0; part < parts; ++part) {
    std::copy(columns[part].begin(), columns[part].end(), all.mutable_data_ptr<int32_t>() + offset[part * grain]);
    columns[part] = {};
  }
  const at::Device device = graph.weights().device();
  return std::make_shared<const SparsePattern>(rows, rows, offsets.to(device), all.to(device));
}

}  // namespace topomask::python

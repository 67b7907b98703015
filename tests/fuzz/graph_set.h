#pragma once

#include "fuzz/harness.h"
#include "io/line_reader.h"
#include "topomask/data/graph_options.h"

namespace topomask::fuzz {

/// The lines of a string in memory. Errors about it start with "fuzz: NAME".
inline std::unique_ptr<io::LineReader> lines_in(const std::string& name, std::string text) {
  return std::make_unique<io::LineReader>(io::Origin{"fuzz", name},
                                          [text = std::move(text), at = size_t{0}](char* out, size_t bytes) mutable {
                                            const size_t count = std::min(bytes, text.size() - at);
                                            text.copy(out, count, at);
                                            at += count;
                                            return count;
                                          });
}

/// What all code after a reader of sets relies on.
inline void check_set(const GraphSet& set) {
  check_graph(set.graph);
  const int64_t* offset = set.offsets.const_data_ptr<int64_t>();
  require(offset[0] == 0 && offset[set.size()] == set.num_nodes(), "offsets do not span the nodes");
  for (int64_t g = 0; g < set.size(); ++g) require(offset[g] <= offset[g + 1], "offsets of graphs decrease");
  require(set.labels.size(0) == (set.node_labels ? set.num_nodes() : set.size()), "labels of another length");
  const auto classes = static_cast<int64_t>(set.classes.size());
  require((set.labels >= -1).logical_and(set.labels < classes).all().item<bool>(), "a label is out of range");
  require(set.features.dim() == 2 && set.features.size(0) == set.num_nodes(), "features of another shape");
  require(set.features.isfinite().all().item<bool>(), "a feature is not finite");
  if (set.parents.defined()) {
    require((set.parents >= -1).logical_and(set.parents < set.num_nodes()).all().item<bool>(), "no such parent");
  }
  std::vector<int64_t> reversed;
  for (int64_t g = set.size() - 1; g >= 0; --g) reversed.push_back(g);
  const GraphSample sample = take(set, reversed);
  require(sample.graph.num_entries() == set.graph.num_entries(), "graphs are connected, or lost edges");
}

}  // namespace topomask::fuzz

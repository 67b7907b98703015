#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "data/graphs/readers.h"

namespace topomask {

using Edge = std::pair<int32_t, int32_t>;

/// Graphs one after another, with a label of 0 or 1 each.
class GeneratedSet {
 public:
  /// Edges are between nodes 0 … nodes − 1 of the graph.
  void add(int64_t nodes, const std::vector<Edge>& edges, int64_t label);
  GraphSet finish(const std::string& name, std::vector<std::string> classes) const;

 private:
  std::vector<int64_t> offsets_{0}, labels_;
  std::vector<int32_t> source_, target_;
};

/// make(part, i, set) adds graph i of training (part 0), validation (1) and test (2), as many as the options say. What
/// is drawn for a graph depends on part and i alone, so that the size of one part does not change another.
template <class Make>
GraphSplit generate_parts(const GraphDataOptions& options, GeneratedSet& set, const Make& make) {
  GraphSplit split;
  int64_t place = 0;
  const auto part = [&](uint32_t number, int64_t count, std::vector<int64_t>& places) {
    for (int64_t i = 0; i < count; ++i) {
      make(number, i, set);
      places.push_back(place++);
    }
  };
  part(0, options.generated_train, split.train);
  part(1, options.generated_validation, split.validation);
  part(2, options.generated_test, split.test);
  return split;
}

}  // namespace topomask

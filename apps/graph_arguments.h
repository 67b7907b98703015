#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "topomask/graph.h"
#include "topomask/graph_io.h"

namespace topomask::apps {

class Activity;

/// A graph as the command line names it, and the sizes of its axes where it is a grid.
struct NamedGraph {
  Graph graph;
  std::vector<int64_t> dims;
};

/// The largest graphs that the string of a builder may ask for: a dozen characters should not take all memory. A
/// hypercube of 26 dimensions has 1.7·10⁹ entries, which take some 14 GB; the others are about as large.
struct GraphLimits {
  int64_t nodes = std::numeric_limits<int32_t>::max();
  int64_t complete_nodes = 40000;
  int64_t hypercube_dimensions = 26;
  int64_t random_entries = 1'700'000'000;  ///< expected ones
};

/// `GRAPH --scale S --weights`: a file, or grid:28x28, torus:28x28, path:100, cycle:100, complete:9, star:9,
/// hypercube:10, tree:1023 (binary), random:1000:0.01[:seed].
class GraphArguments {
 public:
  void add_to(CLI::App& command);
  const std::string& source() const { return source_; }
  /// Weights s/√(d_i d_j), unless --weights keeps those of the file.
  NamedGraph make(const GraphLimits& limits = {}) const;
  /// The same, with its stage in what the command reports: a large graph takes its time.
  NamedGraph make(Activity& activity) const;

 private:
  NamedGraph make(const GraphLimits& limits, const std::function<void(const std::string&)>& notice) const;

  std::string source_;
  double scale_ = 1;
  bool own_weights_ = false, directed_ = false, one_based_ = false;
};

/// The string of a builder, or a file read by its extension. A builder that is not known is a UsageError.
NamedGraph named_graph(const std::string& source, const ReadOptions& options = {}, const GraphLimits& limits = {});

}  // namespace topomask::apps

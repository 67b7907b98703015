#include "graph_arguments.h"

#include <cmath>

#include "fuzz/lines.h"

// The arguments that name a graph, one on each line: grid:3x4, --scale 0.5, random:20:0.3:7. Files are left to the
// targets of their formats: the path of one could name a device.

FUZZ_TARGET(graph_arguments) {
  using namespace topomask;
  static CLI::App app;
  static apps::GraphArguments arguments;
  static const bool once = (arguments.add_to(app), true);
  fuzz::require(once, "no arguments");
  arguments = {};
  constexpr apps::GraphLimits kSmall{
      .nodes = 5000, .complete_nodes = 100, .hypercube_dimensions = 10, .random_entries = 20000};
  fuzz::run_arguments(app, fuzz::lines_of(data, size), [&] {
    const std::string& source = arguments.source();
    if (source.find('/') != std::string::npos || source.find(':') == std::string::npos) return;
    const apps::NamedGraph named = arguments.make(kSmall);
    fuzz::check_graph(named.graph);
    fuzz::require(named.graph.num_nodes() >= 1 && named.graph.num_nodes() <= kSmall.nodes, "a graph beyond its limits");
    int64_t product = 1;
    for (const int64_t side : named.dims) product *= side;
    fuzz::require(named.dims.empty() || product == named.graph.num_nodes(), "sides of another grid");
  });
}

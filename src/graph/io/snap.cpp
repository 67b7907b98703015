#include <ATen/Dispatch.h>

#include <algorithm>
#include <string>

#include "graph/io/edge_list.h"
#include "graph/io/output_file.h"
#include "graph/io/text_reader.h"
#include "topomask/graph_io.h"

namespace topomask {
namespace {

using io::EdgeList;
using io::TextReader;

// The N of a comment such as "# Nodes: 1965206 Edges: 2766607"; 0 where it says nothing of the kind.
int64_t promised_nodes(const TextReader& reader, int64_t line, const std::string& comment, const ReadLimits& limits) {
  constexpr std::string_view kKey = "Nodes:";
  size_t at = comment.find(kKey);
  if (at == std::string::npos) return 0;
  at = comment.find_first_not_of(" \t", at + kKey.size());
  int64_t nodes = 0;
  for (; at < comment.size() && comment[at] >= '0' && comment[at] <= '9'; ++at) {
    nodes = nodes * 10 + (comment[at] - '0');
    if (nodes > io::most_nodes(limits)) {
      io::fail({reader.origin().op, c10::str(reader.origin().path, ":", line)}, io::beyond_nodes(nodes, limits));
    }
  }
  return nodes;
}

int64_t read_id(TextReader& reader, const char* what, const ReadLimits& limits) {
  const int64_t id = reader.integer(what);
  if (id >= io::most_nodes(limits)) reader.fail_here("node id ", id, ": ", io::beyond_nodes(id + 1, limits));
  return id;
}

// The first edge decides whether all have a weight.
void read_weight(TextReader& reader, EdgeList& edges, at::ScalarType dtype) {
  const bool has_weight = reader.peek() == TextReader::Next::token;
  const bool expected = edges.size() == 1 ? has_weight : !edges.weights.empty();
  if (expected) edges.weights.push_back(reader.number("a weight, as on the lines before", dtype));
  reader.end_line();
}

}  // namespace

Graph read_snap(const std::string& path, const ReadOptions& options) {
  TextReader reader({"read_snap", path});
  EdgeList edges;
  int64_t nodes = 0;
  bool has_content = false;
  for (;;) {
    const auto next = reader.peek();
    if (next == TextReader::Next::end_of_file) break;
    if (next == TextReader::Next::end_of_line) {
      reader.end_line();
      continue;
    }
    has_content = true;
    if (reader.at_character('#')) {
      const int64_t line = reader.line();
      nodes = std::max(nodes, promised_nodes(reader, line, reader.comment(), options.limits));
      continue;
    }
    const int64_t source = read_id(reader, "a node id", options.limits);
    const int64_t target = read_id(reader, "a target node id", options.limits);
    if (edges.size() >= options.limits.max_edges) {
      reader.fail_here(io::beyond_edges(edges.size() + 1, options.limits));
    }
    edges.add(source, target);
    nodes = std::max({nodes, source + 1, target + 1});
    read_weight(reader, edges, options.weight_dtype);
  }
  if (!has_content) io::fail(reader.origin(), "the file is empty");
  io::check_isolated(reader.origin(), nodes, edges.size(), options.limits);
  return io::make_graph(reader.origin(), nodes, std::move(edges), options, options.directed, options.weight_dtype);
}

void write_snap(const Graph& graph, const std::string& path) {
  const io::Origin origin{"write_snap", path};
  const io::EdgeWalk edges(origin, graph);
  io::OutputFile file(origin);
  file.put(graph.directed() ? "# Directed graph\n" : "# Undirected graph, each edge once\n");
  file.put(c10::str("# Nodes: ", graph.num_nodes(), " Edges: ", graph.num_edges(), "\n"));
  file.put(edges.unit_weights() ? "# FromNodeId\tToNodeId\n" : "# FromNodeId\tToNodeId\tWeight\n");
  AT_DISPATCH_FLOATING_TYPES(edges.weights().scalar_type(), "write_snap", [&] {
    const auto* weights = edges.weights().const_data_ptr<scalar_t>();
    edges.for_each([&](int64_t row, int64_t column, int64_t entry) {
      file.put(row);
      file.put("\t");
      file.put(column);
      if (!edges.unit_weights()) {
        file.put("\t");
        file.put(weights[entry]);
      }
      file.put("\n");
    });
  });
  file.commit();
}

}  // namespace topomask

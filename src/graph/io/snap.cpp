#include <ATen/Dispatch.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>

#include "graph/io/edge_list.h"
#include "io/output_file.h"
#include "io/text_reader.h"
#include "topomask/graph_io.h"

namespace topomask {
namespace {

using io::EdgeList;
using io::TextReader;

// The N of a comment such as "# Nodes: 1965206 Edges: 2766607"; 0 if there is none.
int64_t promised_nodes(const TextReader& reader, int64_t line, const std::string& comment, const ReadLimits& limits) {
  constexpr std::string_view kKey = "Nodes:";
  size_t at = comment.find(kKey);
  if (at == std::string::npos) return 0;
  at = comment.find_first_not_of(" \t", at + kKey.size());
  std::string word = comment.substr(std::min(at, comment.size()));
  word.resize(std::min(word.find_first_of(" \t\r"), word.size()));
  while (!word.empty() && (word.back() == ',' || word.back() == ';' || word.back() == '.')) word.pop_back();
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const size_t digits = static_cast<size_t>(std::find_if_not(word.begin(), word.end(), is_digit) - word.begin());
  const bool is_signed = word.size() > 1 && (word[0] == '-' || word[0] == '+') && is_digit(word[1]);
  if (digits == 0 && !is_signed) return 0;  // other prose
  const io::Origin here{reader.origin().op, c10::str(reader.origin().path, ":", line)};
  if (digits < word.size()) {
    io::fail(here, "expected a number of nodes after \"Nodes:\", got \"", word.substr(0, 40), "\"");
  }
  int64_t nodes = 0;
  const bool parsed = std::from_chars(word.data(), word.data() + word.size(), nodes).ec == std::errc{};
  if (parsed && nodes <= io::most_nodes(limits)) return nodes;
  if (parsed) io::fail(here, io::beyond_nodes(nodes, limits));
  io::fail(here, "the number of nodes ", word.substr(0, 40), " is out of range");
}

/// An id as it stands in the file becomes a node.
int64_t read_id(TextReader& reader, const char* what, const ReadOptions& options) {
  const int64_t id = reader.integer(what), node = options.one_based ? id - 1 : id;
  if (node < 0) reader.fail_here("a node id must be >= 1 in a file that is read as one_based, got ", id);
  if (node >= io::most_nodes(options.limits)) {
    reader.fail_here("node id ", id, ": ", io::beyond_nodes(node + 1, options.limits));
  }
  return node;
}

// The first edge decides whether all have a weight.
void read_weight(TextReader& reader, EdgeList& edges, at::ScalarType dtype) {
  const bool has_weight = reader.peek() == TextReader::Next::token;
  const bool expected = edges.size() == 1 ? has_weight : !edges.weights.empty();
  const char* what = has_weight ? "a weight" : "a weight, as on the lines before";
  if (expected) edges.weights.push_back(reader.number(what, dtype));
  reader.end_line();
}

}  // namespace

Graph read_snap(const std::string& path, const ReadOptions& options) {
  io::check_options({"read_snap", path}, options);
  TextReader reader({"read_snap", path});
  EdgeList edges;
  int64_t promised = 0, smallest = std::numeric_limits<int64_t>::max(), largest = -1;
  bool has_content = false;
  for (;;) {
    const auto next = reader.peek();
    if (next == TextReader::Next::end_of_file) break;
    if (next == TextReader::Next::end_of_line) {
      reader.end_line();
      continue;
    }
    has_content = true;
    if (reader.at_character('#') || reader.at_character('%')) {
      const int64_t line = reader.line();
      promised = std::max(promised, promised_nodes(reader, line, reader.comment(), options.limits));
      continue;
    }
    const int64_t source = read_id(reader, "a node id", options);
    const int64_t target = read_id(reader, "a target node id", options);
    if (edges.size() >= options.limits.max_edges) {
      reader.fail_here(io::beyond_edges(edges.size() + 1, options.limits));
    }
    edges.add(source, target);
    smallest = std::min({smallest, source, target});
    largest = std::max({largest, source, target});
    read_weight(reader, edges, options.weight_dtype);
  }
  if (!has_content) io::fail(reader.origin(), "the file is empty");
  const int64_t nodes = std::max(promised, largest + 1);
  // A header that counts other nodes than 1 … N says that numbers are missing anyway.
  if (promised == 0 || promised == largest) io::warn_if_one_based(reader.origin(), smallest, largest, options);
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

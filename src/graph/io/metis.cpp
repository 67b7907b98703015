#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "graph/io/edge_list.h"
#include "io/output_file.h"
#include "io/text_reader.h"
#include "topomask/graph_io.h"

namespace topomask {
namespace {

using io::TextReader;

struct MetisHeader {
  int64_t line = 0;
  int64_t nodes = 0;
  int64_t edges = 0;
  int64_t skipped = 0;  ///< node sizes and weights at the start of each row
  bool edge_weights = false;
};

/// The rows as they stand in the file, 0-based.
struct Rows {
  std::vector<int64_t> offsets{0};
  std::vector<int64_t> lines;
  std::vector<int32_t> columns;
  std::vector<double> weights;

  int64_t ends() const { return static_cast<int64_t>(columns.size()); }
};

// fmt is read as three binary digits: node sizes, node weights, edge weights.
void read_format(TextReader& reader, MetisHeader& header) {
  if (reader.peek() != TextReader::Next::token) return;
  std::string format(reader.token("a format"));
  if (format.size() > 3 || format.find_first_not_of("01") != std::string::npos) {
    reader.fail_here("expected a format of up to three digits 0 or 1, got \"", format.substr(0, 40), "\"");
  }
  format.insert(0, 3 - format.size(), '0');
  const bool node_sizes = format[0] == '1', node_weights = format[1] == '1';
  header.edge_weights = format[2] == '1';
  int64_t constraints = node_weights ? 1 : 0;
  if (reader.peek() == TextReader::Next::token) {
    constraints = reader.integer("a number of node weights");
    if (node_weights != (constraints > 0)) {
      reader.fail_here("format ", format, " and ", constraints, " weights per node contradict each other");
    }
  }
  header.skipped = constraints + (node_sizes ? 1 : 0);
}

MetisHeader read_metis_header(TextReader& reader, const ReadLimits& limits) {
  MetisHeader header;
  if (reader.peek_content('%') != TextReader::Next::token) reader.fail_expected("a header `N E [fmt [ncon]]`");
  header.line = reader.line();
  header.nodes = reader.integer("a number of nodes");
  header.edges = reader.integer("a number of edges");
  if (header.nodes > io::most_nodes(limits)) reader.fail_here(io::beyond_nodes(header.nodes, limits));
  if (header.edges > limits.max_edges) reader.fail_here(io::beyond_edges(header.edges, limits));
  // A row is at least its line break, and each end of an edge a digit and a blank; the last of either may lack the
  // latter.
  constexpr int64_t kBytesPerEdge = 4;
  if (!reader.can_hold(header.nodes + 2) || !reader.can_hold(header.edges * kBytesPerEdge)) {
    reader.fail_here("the file is too small for the ", header.nodes, " nodes and ", header.edges,
                     " edges of its header");
  }
  read_format(reader, header);
  reader.end_line();
  return header;
}

void read_row(TextReader& reader, const MetisHeader& header, int64_t node, Rows& rows) {
  for (int64_t i = 0; i < header.skipped; ++i) reader.integer("a node weight or size");
  while (reader.peek() == TextReader::Next::token) {
    const int64_t neighbour = reader.integer("a neighbour");
    if (neighbour < 1 || neighbour > header.nodes) {
      reader.fail_here("neighbour ", neighbour, " is outside 1 … ", header.nodes);
    }
    if (neighbour == node + 1) reader.fail_here("node ", neighbour, " is its own neighbour, which METIS files exclude");
    if (rows.ends() == 2 * header.edges) {
      reader.fail_here("more neighbours than the ", header.edges, " edges of the header have ends");
    }
    rows.columns.push_back(static_cast<int32_t>(neighbour - 1));
    if (!header.edge_weights) continue;
    const int64_t weight = reader.integer("an edge weight");
    if (weight == 0) reader.fail_here("an edge weight must be a positive integer, got 0");
    rows.weights.push_back(static_cast<double>(weight));
  }
}

Rows read_rows(TextReader& reader, const MetisHeader& header) {
  Rows rows;
  for (int64_t node = 0; node < header.nodes; ++node) {
    while (reader.peek() == TextReader::Next::token && reader.at_character('%')) reader.skip_line();
    // The last row may be an empty line that lacks its line break.
    if (reader.peek() == TextReader::Next::end_of_file && node + 1 < header.nodes) {
      reader.fail_here("the file ends after ", node, " of ", header.nodes, " rows");
    }
    rows.lines.push_back(reader.line());
    read_row(reader, header, node, rows);
    reader.end_line();
    rows.offsets.push_back(rows.ends());
  }
  if (reader.peek_content('%') == TextReader::Next::token) {
    reader.fail_expected(c10::str("the end of the file after ", header.nodes, " rows"));
  }
  if (rows.ends() != 2 * header.edges) {
    io::fail({reader.origin().op, c10::str(reader.origin().path, ":", header.line)}, "the header promises ",
             header.edges, " edges, hence ", 2 * header.edges, " neighbours; the rows hold ", rows.ends());
  }
  return rows;
}

void sort_rows(Rows& rows) {
  std::vector<std::pair<int32_t, double>> row;
  for (size_t node = 0; node + 1 < rows.offsets.size(); ++node) {
    const int64_t first = rows.offsets[node], last = rows.offsets[node + 1];
    if (rows.weights.empty()) {
      std::sort(rows.columns.begin() + first, rows.columns.begin() + last);
      continue;
    }
    row.clear();
    for (int64_t e = first; e < last; ++e) row.emplace_back(rows.columns[e], rows.weights[e]);
    std::sort(row.begin(), row.end());
    for (int64_t e = first; e < last; ++e) std::tie(rows.columns[e], rows.weights[e]) = row[e - first];
  }
}

// Going through the sorted rows in order meets the entries of every other row in order too: one cursor per row finds
// the twin of each entry without a search.
void check_both_ends(const io::Origin& origin, const Rows& rows) {
  const auto fail_at = [&](int64_t node, const auto&... text) {
    io::fail({origin.op, c10::str(origin.path, ":", rows.lines[node])}, text...);
  };
  std::vector<int64_t> cursor(rows.offsets.begin(), rows.offsets.end() - 1);
  for (int64_t node = 0; node < static_cast<int64_t>(cursor.size()); ++node) {
    for (int64_t e = rows.offsets[node]; e < rows.offsets[node + 1]; ++e) {
      const int64_t other = rows.columns[e], twin = cursor[other]++;
      const bool exhausted = twin == rows.offsets[other + 1];
      if (exhausted || rows.columns[twin] > node) {
        fail_at(node, "the edge to ", other + 1, " is not in the row of ", other + 1, " (line ", rows.lines[other],
                ")");
      }
      if (const int64_t missing = rows.columns[twin]; missing < node) {
        fail_at(other, "the edge to ", missing + 1, " is not in the row of ", missing + 1, " (line ",
                rows.lines[missing], ")");
      }
      if (!rows.weights.empty() && rows.weights[e] != rows.weights[twin]) {
        fail_at(node, "the edge to ", other + 1, " has weight ", rows.weights[e], " here and ", rows.weights[twin],
                " on line ", rows.lines[other]);
      }
    }
  }
}

}  // namespace

Graph read_metis(const std::string& path, const ReadOptions& options) {
  io::check_options({"read_metis", path}, options);
  TextReader reader({"read_metis", path});
  const MetisHeader header = read_metis_header(reader, options.limits);
  Rows rows = read_rows(reader, header);
  sort_rows(rows);
  check_both_ends(reader.origin(), rows);
  io::EdgeList edges;
  for (int64_t node = 0; node < header.nodes; ++node) {
    for (int64_t e = rows.offsets[node]; e < rows.offsets[node + 1]; ++e) {
      if (rows.columns[e] < node) continue;
      edges.add(node, rows.columns[e]);
      if (header.edge_weights) edges.weights.push_back(rows.weights[e]);
    }
  }
  rows = {};
  return io::make_graph(reader.origin(), header.nodes, std::move(edges), options, false, options.weight_dtype);
}

void write_metis(const Graph& graph, const std::string& path) {
  const io::Origin origin{"write_metis", path};
  const io::EdgeWalk edges(origin, graph);
  if (graph.directed()) io::fail(origin, "METIS files hold undirected graphs only, got a directed one");
  const at::Tensor weights = edges.weights().to(at::kDouble);
  const auto* weight = weights.const_data_ptr<double>();
  edges.for_each([&](int64_t row, int64_t column, int64_t entry) {
    if (row == column) io::fail(origin, "METIS files hold no self-loops, got one at node ", row);
    constexpr double kLargest = 9007199254740992.0;  // 2⁵³: beyond it float64 skips integers
    if (weight[entry] < 1 || weight[entry] > kLargest || weight[entry] != std::floor(weight[entry])) {
      io::fail(origin, "METIS files hold positive integer weights, got ", weight[entry], " on edge ", row, "-", column);
    }
  });
  io::OutputFile file(origin);
  file.put(c10::str(graph.num_nodes(), " ", graph.num_edges(), edges.unit_weights() ? "\n" : " 001\n"));
  const at::Tensor offsets = graph.offsets().cpu().contiguous(), columns = graph.columns().cpu().contiguous();
  const auto* offset = offsets.const_data_ptr<int64_t>();
  const auto* column = columns.const_data_ptr<int32_t>();
  for (int64_t node = 0; node < graph.num_nodes(); ++node) {
    for (int64_t entry = offset[node]; entry < offset[node + 1]; ++entry) {
      if (entry != offset[node]) file.put(" ");
      file.put(int64_t{column[entry]} + 1);
      if (edges.unit_weights()) continue;
      file.put(" ");
      file.put(static_cast<int64_t>(weight[entry]));
    }
    file.put("\n");
  }
  file.commit();
}

}  // namespace topomask

#include <ATen/Dispatch.h>

#include <cctype>
#include <cmath>
#include <initializer_list>
#include <string>

#include "graph/io/edge_list.h"
#include "graph/io/symmetric_pairs.h"
#include "io/output_file.h"
#include "io/text_reader.h"
#include "topomask/graph_io.h"

namespace topomask {
namespace {

using io::TextReader;

struct Header {
  std::string field;
  bool symmetric = false;
  int64_t nodes = 0;
  int64_t entries = 0;
};

std::string lower_token(TextReader& reader, const char* what) {
  std::string word(reader.token(what));
  for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return word;
}

// Refuses, by its name, what Matrix Market allows and a graph cannot be.
std::string one_of(TextReader& reader, const char* what, std::initializer_list<const char*> known) {
  const std::string word = lower_token(reader, what);
  std::string list;
  for (const char* name : known) {
    if (word == name) return word;
    list += c10::str(list.empty() ? "" : ", ", name);
  }
  reader.fail_here(what, " must be ", list, ", got \"", word.substr(0, 40), "\"");
}

Header read_header(TextReader& reader, const ReadLimits& limits) {
  Header header;
  if (lower_token(reader, "the banner %%MatrixMarket") != "%%matrixmarket") {
    reader.fail_here("expected the banner %%MatrixMarket on the first line");
  }
  one_of(reader, "the object", {"matrix"});
  one_of(reader, "the format", {"coordinate"});
  header.field = one_of(reader, "the field", {"real", "integer", "pattern"});
  header.symmetric = one_of(reader, "the symmetry", {"general", "symmetric"}) == "symmetric";
  reader.end_line();
  if (reader.peek_content('%') != TextReader::Next::token) reader.fail_expected("the size line `rows columns entries`");
  header.nodes = reader.integer("a number of rows");
  const int64_t columns = reader.integer("a number of columns");
  header.entries = reader.integer("a number of entries");
  if (header.nodes != columns) {
    reader.fail_here("a graph needs a square matrix, got ", header.nodes, " rows and ", columns, " columns");
  }
  if (header.nodes > io::most_nodes(limits)) reader.fail_here(io::beyond_nodes(header.nodes, limits));
  if (header.entries > limits.max_edges) reader.fail_here(io::beyond_edges(header.entries, limits));
  constexpr int64_t kBytesPerEntry = 4;  // "1 1" and a line break, which the last may lack
  if (!reader.can_hold(header.entries * kBytesPerEntry)) {
    reader.fail_here("the file is too small for the ", header.entries, " entries of its header");
  }
  reader.end_line();
  return header;
}

int64_t read_index(TextReader& reader, const char* what, int64_t nodes) {
  const int64_t index = reader.integer(what);
  if (index < 1 || index > nodes) reader.fail_here(what, " must be in 1 … ", nodes, ", got ", index);
  return index - 1;
}

}  // namespace

Graph read_matrix_market(const std::string& path, const ReadOptions& options) {
  io::check_options({"read_matrix_market", path}, options);
  TextReader reader({"read_matrix_market", path});
  const Header header = read_header(reader, options.limits);
  io::EdgeList edges;
  io::SymmetricPairs pairs;
  for (int64_t entry = 0; entry < header.entries; ++entry) {
    if (reader.peek_content('%') == TextReader::Next::end_of_file) {
      reader.fail_here("the file ends after ", entry, " of ", header.entries, " entries");
    }
    const int64_t row = read_index(reader, "a row index", header.nodes);
    const int64_t column = read_index(reader, "a column index", header.nodes);
    edges.add(row, column);
    if (header.symmetric) pairs.add(row, column, reader.line());
    if (header.field == "real") edges.weights.push_back(reader.number("a value", options.weight_dtype));
    if (header.field == "integer") {
      const double value = reader.number("an integer value", options.weight_dtype);
      if (value != std::floor(value)) reader.fail_here("an integer matrix holds the value ", value);
      edges.weights.push_back(value);
    }
    reader.end_line();
  }
  if (reader.peek_content('%') == TextReader::Next::token) {
    reader.fail_expected(c10::str("the end of the file after ", header.entries, " entries"));
  }
  if (header.symmetric) pairs.check_values(reader.origin(), edges, options.duplicates);
  io::check_isolated(reader.origin(), header.nodes, edges.size(), options.limits);
  return io::make_graph(reader.origin(), header.nodes, std::move(edges), options, !header.symmetric,
                        options.weight_dtype);
}

void write_matrix_market(const Graph& graph, const std::string& path) {
  const io::Origin origin{"write_matrix_market", path};
  const io::EdgeWalk edges(origin, graph);
  io::OutputFile file(origin);
  file.put(c10::str("%%MatrixMarket matrix coordinate ", edges.unit_weights() ? "pattern " : "real ",
                    graph.directed() ? "general\n" : "symmetric\n"));
  file.put(c10::str(graph.num_nodes(), " ", graph.num_nodes(), " ", graph.num_edges(), "\n"));
  AT_DISPATCH_FLOATING_TYPES(edges.weights().scalar_type(), "write_matrix_market", [&] {
    const auto* weights = edges.weights().const_data_ptr<scalar_t>();
    edges.for_each([&](int64_t row, int64_t column, int64_t entry) {
      // Symmetric files hold the lower triangle, and the walk gives the upper one.
      file.put((graph.directed() ? row : column) + 1);
      file.put(" ");
      file.put((graph.directed() ? column : row) + 1);
      if (!edges.unit_weights()) {
        file.put(" ");
        file.put(weights[entry]);
      }
      file.put("\n");
    });
  });
  file.commit();
}

}  // namespace topomask

#include "graph/io/npz_matrix.h"

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "graph/io/edge_list.h"
#include "io/npy.h"
#include "io/quoted.h"

namespace topomask::io {
namespace {

/// The arrays of the archive, each held against the size of its member before memory is taken.
class MatrixArrays {
 public:
  MatrixArrays(InputFile& file, const std::map<std::string, ZipMember>& members, const ReadLimits& limits)
      : file_(file), members_(members), limits_(limits) {}

  std::string format() const { return array("format", 0)->text(); }
  int64_t nodes() const;                                                   ///< rows and columns
  std::vector<int32_t> ids(const std::string& name, int64_t below) const;  ///< below a number of nodes
  /// Of the array indptr: the row (of csc the column) of each entry.
  std::vector<int32_t> expanded_ids(int64_t nodes, const std::vector<int32_t>& indices) const;
  /// The dtype of the graph's weights.
  at::ScalarType read_values(EdgeList& edges, at::ScalarType of_integers) const;

 private:
  std::unique_ptr<NpyReader> array(const std::string& name, size_t dimensions) const;
  std::unique_ptr<NpyReader> integers(const std::string& name) const;

  InputFile& file_;
  const std::map<std::string, ZipMember>& members_;
  const ReadLimits& limits_;
};

std::unique_ptr<NpyReader> MatrixArrays::array(const std::string& name, size_t dimensions) const {
  const auto member = members_.find(name + ".npy");
  if (member == members_.end()) fail(file_.origin(), "no array \"", name, "\" in the archive");
  auto found = std::make_unique<NpyReader>(file_, member->second, name);
  if (found->header().shape.size() != dimensions) {
    found->refuse("must have ", dimensions == 0 ? "no" : "one", " dimension, got ", found->header().describe());
  }
  return found;
}

std::unique_ptr<NpyReader> MatrixArrays::integers(const std::string& name) const {
  auto found = array(name, 1);
  if (!found->header().integer()) found->refuse("must hold integers, got ", found->header().describe());
  return found;
}

int64_t MatrixArrays::nodes() const {
  const auto shape = integers("shape");
  if (shape->size() != 2) shape->refuse("must have two values, got ", shape->header().describe());
  int64_t sides[2] = {};
  shape->for_each_integer([&](int64_t index, int64_t value) { sides[index] = value; });
  if (sides[0] != sides[1]) {
    shape->refuse("a graph needs a square matrix, got ", sides[0], " rows and ", sides[1], " columns");
  }
  if (sides[0] < 0) shape->refuse("must not be negative, got ", sides[0]);
  if (sides[0] > most_nodes(limits_)) shape->refuse(beyond_nodes(sides[0], limits_));
  return sides[0];
}

std::vector<int32_t> MatrixArrays::ids(const std::string& name, int64_t below) const {
  const auto array = integers(name);
  if (array->size() > limits_.max_edges) array->refuse(beyond_edges(array->size(), limits_));
  std::vector<int32_t> values(static_cast<size_t>(array->size()));
  array->for_each_integer([&](int64_t index, int64_t value) {
    if (value < 0 || value >= below) {
      array->refuse("must be from 0 to ", below - 1, ", got ", value, " at index ", index);
    }
    values[static_cast<size_t>(index)] = static_cast<int32_t>(value);
  });
  return values;
}

std::vector<int32_t> MatrixArrays::expanded_ids(int64_t nodes, const std::vector<int32_t>& indices) const {
  const auto entries = static_cast<int64_t>(indices.size());
  const auto array = integers("indptr");
  if (array->size() != nodes + 1) {
    array->refuse("must have ", nodes + 1, " values, one more than rows, got ", array->size());
  }
  std::vector<int32_t> values(indices.size());
  int64_t from = 0;
  array->for_each_integer([&](int64_t index, int64_t to) {
    const bool good = to >= from && to <= entries && (index > 0 || to == 0) && (index < nodes || to == entries);
    if (!good) {
      array->refuse("must ascend from 0 to ", entries, ", the length of indices, got ", to, " at index ", index);
    }
    for (; from < to; ++from) values[static_cast<size_t>(from)] = static_cast<int32_t>(index - 1);
  });
  return values;
}

at::ScalarType MatrixArrays::read_values(EdgeList& edges, at::ScalarType of_integers) const {
  const auto array = this->array("data", 1);
  const NpyHeader& header = array->header();
  if (!header.floating() && !header.integer() && !header.boolean()) {
    array->refuse("must hold numbers, got ", header.describe());
  }
  if (array->size() != edges.size()) {
    array->refuse("must have one value per entry, ", edges.size(), ", got ", array->size());
  }
  edges.weights.resize(edges.source.size());
  const auto store = [&](int64_t index, auto value) {
    const auto weight = static_cast<double>(value);
    if (!std::isfinite(weight)) array->refuse("must be finite, got ", weight, " at index ", index);
    edges.weights[static_cast<size_t>(index)] = weight;
  };
  if (header.floating()) {
    array->for_each_float(store);
    return header.item_bytes <= 4 ? at::kFloat : at::kDouble;
  }
  array->for_each_integer([&](int64_t index, int64_t value) {
    if (header.kind == 'u' && value < 0) array->refuse("must be below 2^63, got a larger value at index ", index);
    store(index, value);
  });
  return of_integers;
}

}  // namespace

bool holds_matrix(const std::map<std::string, ZipMember>& members) {
  return members.contains("format.npy") && !members.contains("src.npy");
}

Graph read_npz_matrix(InputFile& file, const std::map<std::string, ZipMember>& members, const ReadOptions& options) {
  const MatrixArrays arrays(file, members, options.limits);
  const std::string format = arrays.format();
  const int64_t nodes = arrays.nodes();
  EdgeList edges;
  if (format == "coo") {
    edges.source = arrays.ids("row", nodes);
    edges.target = arrays.ids("col", nodes);
    if (edges.source.size() != edges.target.size()) {
      fail(file.origin(), "row and col must have the same length, got ", edges.source.size(), " and ",
           edges.target.size());
    }
  } else if (format == "csr" || format == "csc") {
    edges.target = arrays.ids("indices", nodes);
    edges.source = arrays.expanded_ids(nodes, edges.target);
    if (format == "csc") std::swap(edges.source, edges.target);  // columns are compressed, indices are rows
  } else {
    fail(file.origin(), "array \"format\": must be csr, csc or coo, got ", quoted(format));
  }
  const at::ScalarType dtype = arrays.read_values(edges, options.weight_dtype);
  check_isolated(file.origin(), nodes, edges.size(), options.limits);
  return make_graph(file.origin(), nodes, std::move(edges), options, /*directed=*/true, dtype);
}

}  // namespace topomask::io

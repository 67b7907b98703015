#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/io/edge_list.h"
#include "graph/io/npz_matrix.h"
#include "io/npy.h"
#include "topomask/graph_io.h"

namespace topomask {
namespace {

using io::NpyReader;

using Members = std::map<std::string, io::ZipMember>;

void check_vector(const NpyReader& array) {
  if (array.header().shape.size() != 1) array.refuse("must have shape [E], got ", array.header().describe());
}

std::optional<int64_t> read_num_nodes(io::InputFile& file, const Members& members, const ReadLimits& limits) {
  const auto member = members.find("num_nodes.npy");
  if (member == members.end()) return std::nullopt;
  NpyReader array(file, member->second, "num_nodes");
  if (!array.header().integer() || array.size() != 1) {
    array.refuse("must be an integer scalar, got ", array.header().describe());
  }
  int64_t nodes = 0;
  array.for_each_integer([&](int64_t, int64_t value) { nodes = value; });
  if (nodes < 0) array.refuse("must not be negative, got ", nodes);
  if (nodes > io::most_nodes(limits)) array.refuse(io::beyond_nodes(nodes, limits));
  return nodes;
}

/// The ids of an array as nodes, below a number of them.
std::vector<int32_t> read_ids(io::InputFile& file, const Members& members, const std::string& name, int64_t below,
                              const ReadOptions& options) {
  const ReadLimits& limits = options.limits;
  const int64_t first = options.one_based ? 1 : 0;
  const auto member = members.find(name + ".npy");
  if (member == members.end()) io::fail(file.origin(), "no array \"", name, "\" in the archive");
  NpyReader array(file, member->second, name);
  check_vector(array);
  if (!array.header().integer()) array.refuse("must hold integers, got ", array.header().describe());
  if (array.size() > limits.max_edges) array.refuse(io::beyond_edges(array.size(), limits));
  std::vector<int32_t> ids(static_cast<size_t>(array.size()));
  array.for_each_integer([&](int64_t index, int64_t id) {
    if (id < first || id - first >= below) {
      array.refuse("node id must be in ", first, " … ", below - 1 + first, ", got ", id, " at index ", index);
    }
    ids[static_cast<size_t>(index)] = static_cast<int32_t>(id - first);
  });
  return ids;
}

// The dtype of the weights; float32 where there are none.
at::ScalarType read_weights(io::InputFile& file, const Members& members, io::EdgeList& edges) {
  const auto member = members.find("weight.npy");
  if (member == members.end()) return at::kFloat;
  NpyReader array(file, member->second, "weight");
  check_vector(array);
  if (!array.header().floating()) array.refuse("must be float16, float32 or float64, got ", array.header().describe());
  if (array.size() != edges.size())
    array.refuse("must have one weight per edge, ", edges.size(), ", got ", array.size());
  edges.weights.resize(edges.source.size());
  array.for_each_float([&](int64_t index, double weight) {
    if (!std::isfinite(weight)) array.refuse("must be finite, got ", weight, " at index ", index);
    edges.weights[static_cast<size_t>(index)] = weight;
  });
  return array.header().item_bytes <= 4 ? at::kFloat : at::kDouble;
}

std::string_view bytes_of(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

}  // namespace

Graph read_npz(const std::string& path, const ReadOptions& options) {
  io::check_options({"read_npz", path}, options);
  io::InputFile file({"read_npz", path});
  const Members members = io::read_zip_directory(file);
  if (io::holds_matrix(members)) return io::read_npz_matrix(file, members, options);
  const std::optional<int64_t> promised = read_num_nodes(file, members, options.limits);
  const int64_t below = promised.value_or(io::most_nodes(options.limits));
  io::EdgeList edges;
  edges.source = read_ids(file, members, "src", below, options);
  edges.target = read_ids(file, members, "dst", below, options);
  if (edges.source.size() != edges.target.size()) {
    io::fail(file.origin(), "src and dst must have the same length, got ", edges.source.size(), " and ",
             edges.target.size());
  }
  const at::ScalarType dtype = read_weights(file, members, edges);
  int32_t smallest = std::numeric_limits<int32_t>::max(), largest = -1;
  for (size_t i = 0; i < edges.source.size(); ++i) {
    smallest = std::min({smallest, edges.source[i], edges.target[i]});
    largest = std::max({largest, edges.source[i], edges.target[i]});
  }
  if (!promised) io::warn_if_one_based(file.origin(), smallest, largest, options);
  const int64_t nodes = promised.value_or(int64_t{largest} + 1);
  io::check_isolated(file.origin(), nodes, edges.size(), options.limits);
  return io::make_graph(file.origin(), nodes, std::move(edges), options, options.directed, dtype);
}

void write_npz(const Graph& graph, const std::string& path) {
  const io::Origin origin{"write_npz", path};
  const io::EdgeWalk edges(origin, graph);
  const int64_t count = graph.num_edges();
  const at::Tensor source = at::empty({count}, at::kInt), target = at::empty({count}, at::kInt);
  const at::Tensor weight = at::empty({count}, edges.weights().options());
  AT_DISPATCH_FLOATING_TYPES(weight.scalar_type(), "write_npz", [&] {
    auto* from = source.mutable_data_ptr<int32_t>();
    auto* to = target.mutable_data_ptr<int32_t>();
    auto* out = weight.mutable_data_ptr<scalar_t>();
    const auto* weights = edges.weights().const_data_ptr<scalar_t>();
    edges.for_each([&](int64_t row, int64_t column, int64_t entry) {
      *from++ = static_cast<int32_t>(row);
      *to++ = static_cast<int32_t>(column);
      *out++ = weights[entry];
    });
  });
  io::OutputFile file(origin);
  io::ZipWriter archive(file);
  const std::string shape = c10::str("(", count, ",)");
  archive.add("src.npy", io::npy_header("<i4", shape), bytes_of(source));
  archive.add("dst.npy", io::npy_header("<i4", shape), bytes_of(target));
  const bool wide = weight.scalar_type() == at::kDouble;
  if (wide || !edges.unit_weights()) {
    archive.add("weight.npy", io::npy_header(wide ? "<f8" : "<f4", shape), bytes_of(weight));
  }
  const int64_t nodes = graph.num_nodes();
  archive.add("num_nodes.npy", io::npy_header("<i8", "()"), {reinterpret_cast<const char*>(&nodes), sizeof(nodes)});
  archive.finish();
  file.commit();
}

}  // namespace topomask

#include "graph/names.h"
#include "python_bridge/objects.h"

namespace topomask::python {
namespace {

using PatternRef = Ref<PatternPtr>;
using GraphRef = Ref<Graph>;

EdgeListOptions edge_options(const char* op, bool directed, const std::string& duplicates,
                             const std::string& self_loops) {
  return {.directed = directed,
          .duplicates = kDuplicatesNames.parse(op, "duplicates", duplicates),
          .self_loops = kSelfLoopsNames.parse(op, "self_loops", self_loops)};
}

/// The graph, and what the reader has to say about the file.
std::tuple<GraphRef, std::vector<std::string>> read(const std::string& format, const std::string& path, bool directed,
                                                    const std::string& duplicates, const std::string& self_loops,
                                                    const std::vector<int64_t>& limits, bool double_weights,
                                                    bool one_based) {
  using Reader = Graph (*)(const std::string&, const ReadOptions&);
  constexpr EnumNames<int, 5> kNames{{"read_graph", "read_snap", "read_metis", "read_matrix_market", "read_npz"}};
  constexpr Reader kReaders[] = {read_graph, read_snap, read_metis, read_matrix_market, read_npz};
  const EdgeListOptions edges = edge_options(format.c_str(), directed, duplicates, self_loops);
  TORCH_CHECK(limits.size() == 3, "read_graph: limits must be 3 numbers, got ", limits.size());
  std::vector<std::string> warnings;
  const ReadOptions options{.directed = directed,
                            .duplicates = edges.duplicates,
                            .self_loops = edges.self_loops,
                            .limits = {.max_nodes = limits[0], .max_edges = limits[1], .max_isolated = limits[2]},
                            .weight_dtype = double_weights ? at::kDouble : at::kFloat,
                            .one_based = one_based,
                            .warn = [&warnings](const std::string& message) { warnings.push_back(message); }};
  Graph graph = kReaders[kNames.parse("read_graph", "format", format)](path, options);
  return {hold(std::move(graph)), warnings};
}

void write(const GraphRef& graph, const std::string& format, const std::string& path) {
  using Writer = void (*)(const Graph&, const std::string&);
  constexpr EnumNames<int, 4> kNames{{"write_snap", "write_metis", "write_matrix_market", "write_npz"}};
  constexpr Writer kWriters[] = {write_snap, write_metis, write_matrix_market, write_npz};
  kWriters[kNames.parse("write_graph", "format", format)](graph->value, path);
}

void bind_pattern(torch::Library& m) {
  m.class_<Value<PatternPtr>>("Pattern")
      .def(torch::init([](int64_t rows, int64_t cols, at::Tensor offsets, at::Tensor columns) {
        return hold<PatternPtr>(
            std::make_shared<const SparsePattern>(rows, cols, std::move(offsets), std::move(columns)));
      }))
      .def("tensors",
           [](const PatternRef& self) {
             const auto& t = self->value->transposed();
             return std::vector<at::Tensor>{self->value->offsets(), self->value->columns(), t.offsets, t.columns,
                                            t.index};
           })
      .def("tiles",
           [](const PatternRef& self) {
             return std::vector<at::Tensor>{self->value->tiles().rows, self->value->tiles().columns};
           })
      .def("product",
           [](const PatternRef& self, const PatternRef& other) { return hold(self->value->product(other->value)); })
      .def("matmul",
           [](const PatternRef& self, const at::Tensor& values, const at::Tensor& x) {
             return matmul({self->value, values}, x);
           })
      .def("matmul_transposed",
           [](const PatternRef& self, const at::Tensor& values, const at::Tensor& x) {
             return matmul_transposed({self->value, values}, x);
           })
      .def("dense", [](const PatternRef& self, const at::Tensor& values) {
        return SparseMatrix{self->value, values}.dense();
      });
}

void bind_builders(torch::class_<Value<Graph>>& c) {
  c.def_static("path", [](int64_t nodes) { return hold(Graph::path(nodes)); });
  c.def_static("cycle", [](int64_t nodes) { return hold(Graph::cycle(nodes)); });
  c.def_static("grid", [](const std::vector<int64_t>& dims, bool wrap) { return hold(Graph::grid(dims, wrap)); });
  c.def_static("complete", [](int64_t nodes) { return hold(Graph::complete(nodes)); });
  c.def_static("star", [](int64_t nodes) { return hold(Graph::star(nodes)); });
  c.def_static("hypercube", [](int64_t dimensions) { return hold(Graph::hypercube(dimensions)); });
  c.def_static("forest", [](const at::Tensor& parent) { return hold(Graph::forest(parent)); });
  c.def_static("erdos_renyi", [](int64_t nodes, double probability, int64_t seed) {
    return hold(Graph::erdos_renyi(nodes, probability, static_cast<uint64_t>(seed)));
  });
  c.def_static("knn", [](const at::Tensor& points, int64_t k, bool directed) {
    return hold(Graph::knn(points, {.k = k, .directed = directed}));
  });
  c.def_static("from_edges", [](int64_t nodes, const at::Tensor& source, const at::Tensor& target,
                                const std::optional<at::Tensor>& weights, bool directed, const std::string& duplicates,
                                const std::string& self_loops) {
    return hold(Graph::from_edges(nodes, source, target, or_undefined(weights),
                                  edge_options("Graph.from_edges", directed, duplicates, self_loops)));
  });
  c.def_static("from_csr",
               [](const at::Tensor& offsets, const at::Tensor& columns, const std::optional<at::Tensor>& weights,
                  bool directed) { return hold(Graph::from_csr(offsets, columns, or_undefined(weights), directed)); });
  c.def_static("from_pattern", [](const PatternRef& pattern, const at::Tensor& weights, bool directed) {
    return hold(Graph::from_pattern(pattern->value, weights, directed));
  });
  c.def_static("read", read);
  c.def_static("batch", [](const std::vector<GraphRef>& graphs) {
    const std::vector<Graph> values = values_of(graphs);
    const GraphBatch batch(values);
    return std::make_tuple(hold(batch.graph()), batch.offsets(), batch.membership());
  });
}

}  // namespace

void bind_graph(torch::Library& m) {
  bind_pattern(m);
  auto c = m.class_<Value<Graph>>("Graph");
  bind_builders(c);
  c.def("tensors",
        [](const GraphRef& self) {
          return std::vector<at::Tensor>{self->value.offsets(), self->value.columns(), self->value.weights()};
        })
      .def("directed", [](const GraphRef& self) { return self->value.directed(); })
      .def("num_edges", [](const GraphRef& self) { return self->value.num_edges(); })
      .def("degrees", [](const GraphRef& self) { return self->value.degrees(); })
      .def("pattern", [](const GraphRef& self) { return hold(self->value.pattern()); })
      .def("normalised", [](const GraphRef& self, double scale) { return hold(self->value.normalised(scale)); })
      .def("with_weights",
           [](const GraphRef& self, const at::Tensor& weights) { return hold(self->value.with_weights(weights)); })
      .def("to", [](const GraphRef& self, std::optional<at::Device> device,
                    std::optional<at::ScalarType> dtype) { return hold(self->value.to(target_of(device, dtype))); })
      .def("reversed", [](const GraphRef& self) { return hold(self->value.reversed()); })
      .def("cartesian_product",
           [](const GraphRef& self, const GraphRef& other) {
             return hold(cartesian_product(self->value, other->value));
           })
      .def("induced_subgraph",
           [](const GraphRef& self, const at::Tensor& nodes) { return hold(induced_subgraph(self->value, nodes)); })
      .def("permuted", [](const GraphRef& self, const at::Tensor& order) { return hold(permuted(self->value, order)); })
      .def("connected_components",
           [](const GraphRef& self) {
             const Components components = connected_components(self->value);
             return std::make_tuple(components.labels, components.count);
           })
      .def("reverse_cuthill_mckee", [](const GraphRef& self) { return reverse_cuthill_mckee(self->value); })
      .def("shortest_paths",
           [](const GraphRef& self, int64_t max_entries) {
             return shortest_paths(self->value, {.max_entries = max_entries});
           })
      .def("neighbourhoods", [](const GraphRef& self, int64_t hops,
                                int64_t max_entries) { return hold(neighbourhoods(self->value, hops, max_entries)); })
      .def("degree_embedding",
           [](const GraphRef& self, const at::Tensor& table, const std::optional<at::Tensor>& in_table) {
             return degree_embedding(self->value, table, or_undefined(in_table));
           })
      .def("walk_constant",
           [](const GraphRef& self, const at::Tensor& f, double p) { return walk_constant(self->value, f, p); })
      .def("telescoping_walk_constant",
           [](const GraphRef& self, const at::Tensor& f, double p, double scale) {
             return telescoping_walk_constant(self->value, f, p, scale);
           })
      .def("write",
           [](const GraphRef& self, const std::string& format, const std::string& path) { write(self, format, path); });
}

}  // namespace topomask::python

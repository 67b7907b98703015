#include <ATen/ATen.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <limits>

#include "graph/io/helpers.h"

namespace topomask::testing {
namespace {

using RoundTrip = GraphFiles;
using GraphWriters = GraphFiles;
using ReadGraph = GraphFiles;

using Writer = void (*)(const Graph&, const std::string&);

struct Format {
  Writer write;
  const char* file;
};
const std::vector<Format> kFormats = {
    {write_snap, "g.txt"},       {write_snap, "g.edges.gz"},     {write_metis, "g.graph"},
    {write_metis, "g.metis.gz"}, {write_matrix_market, "g.mtx"}, {write_matrix_market, "g.mtx.gz"},
    {write_npz, "g.npz"}};

// Any finite bit pattern may come: exponents over the range of float32, both signs.
Graph random_weighted(at::ScalarType dtype) {
  const at::Tensor ends = at::randint(0, 211, {2, 2003}, at::kLong);
  const at::Tensor weights = at::exp2(at::rand({2003}, at::kDouble) * 200 - 100) * at::randn({2003}, at::kDouble);
  return Graph::from_edges(211, ends[0].contiguous(), ends[1].contiguous(), weights.to(dtype));
}

TEST_F(RoundTrip, KeepsUnweightedGraphsInEveryFormat) {
  const at::Tensor none = at::empty({0}, at::kLong);
  const std::vector<Graph> graphs = {Graph::path(0),
                                     Graph::path(1),
                                     Graph::path(2),
                                     Graph::path(63),
                                     Graph::grid({7, 11}),
                                     Graph::erdos_renyi(101, 0.05, 3),
                                     Graph::star(13),
                                     Graph::from_edges(5, none, none),
                                     Graph::from_edges(9, at::tensor({4, 6}), at::tensor({6, 2}))};
  for (const Format& format : kFormats) {
    for (const Graph& graph : graphs) {
      SCOPED_TRACE(c10::str(format.file, " with ", graph.num_nodes(), " nodes"));
      format.write(graph, at(format.file));
      expect_same(read_graph(at(format.file)), graph);
    }
  }
}

TEST_F(RoundTrip, KeepsEveryBitOfTheWeights) {
  at::manual_seed(0);
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    const Graph graph = random_weighted(dtype);
    for (const Format& format : kFormats) {
      if (format.write == write_metis) continue;
      SCOPED_TRACE(format.file);
      format.write(graph, at(format.file));
      expect_same(read_graph(at(format.file), {.weight_dtype = dtype}), graph);
    }
  }
}

TEST_F(RoundTrip, KeepsIntegerWeightsInMetis) {
  const Graph plain = Graph::grid({5, 6});
  const Graph graph = plain.with_weights(plain.weights() * 16777215);
  write_metis(graph, at("g.graph"));
  expect_same(read_metis(at("g.graph")), graph);
}

TEST_F(RoundTrip, KeepsDirectionLoopsAndIsolatedNodes) {
  const at::Tensor from = at::tensor({0, 1, 1, 4, 4}, at::kLong), to = at::tensor({1, 0, 1, 2, 4}, at::kLong);
  const at::Tensor weights = at::tensor({0.5f, -1.25f, 3.0f, 1e-8f, 0.0f});
  for (const bool directed : {false, true}) {
    const Graph graph = Graph::from_edges(7, from, to, weights, {.directed = directed});
    for (const Format& format : kFormats) {
      if (format.write == write_metis) continue;
      SCOPED_TRACE(format.file);
      format.write(graph, at(format.file));
      expect_same(read_graph(at(format.file), {.directed = directed}), graph);
    }
  }
}

TEST_F(RoundTrip, KeepsTheDtypeOfUnitWeightsInNpz) {
  const Graph graph = Graph::path(5).to(at::kDouble);
  write_npz(graph, at("g.npz"));
  expect_same(read_npz(at("g.npz")), graph);
}

TEST_F(RoundTrip, GzipIsWrittenWhereThePathSaysSo) {
  write_snap(Graph::path(1000), at("g.txt.gz"));
  EXPECT_EQ(get(at("g.txt.gz")).substr(0, 2), "\x1f\x8b");
  EXPECT_LT(std::filesystem::file_size(at("g.txt.gz")), 4000u);
}

TEST_F(GraphWriters, WriteWhatTheFormatsSay) {
  write_snap(Graph::path(3), at("g.txt"));
  EXPECT_EQ(get(at("g.txt")),
            "# Undirected graph, each edge once\n# Nodes: 3 Edges: 2\n# FromNodeId\tToNodeId\n0\t1\n1\t2\n");
  write_metis(Graph::path(3), at("g.graph"));
  EXPECT_EQ(get(at("g.graph")), "3 2\n2\n1 3\n2\n");
  write_matrix_market(Graph::path(3), at("g.mtx"));
  EXPECT_EQ(get(at("g.mtx")), "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 2\n");
}

TEST_F(GraphWriters, RefuseWhatMetisCannotHold) {
  const at::Tensor from = at::tensor({0, 1}, at::kLong), to = at::tensor({1, 1}, at::kLong);
  const auto error = [&](const Graph& graph) { return error_of([&] { write_metis(graph, at("g.graph")); }); };
  EXPECT_EQ(error(Graph::from_edges(2, from, to)),
            "write_metis: " + at("g.graph") + ": METIS files hold no self-loops, got one at node 1");
  EXPECT_EQ(error(Graph::from_edges(2, from, to, {}, {.directed = true})),
            "write_metis: " + at("g.graph") + ": METIS files hold undirected graphs only, got a directed one");
  for (const double weight : {0.5, 0.0, -1.0, 1e20}) {
    EXPECT_NE(error(Graph::path(2).with_weights(at::full({2}, weight)))
                  .find("METIS files hold positive integer weights, got "),
              std::string::npos);
  }
  EXPECT_EQ(files(), 0u);
}

TEST_F(GraphWriters, RefuseWeightsThatAreNotFinite) {
  const Graph graph = Graph::path(2);
  graph.weights().fill_(INFINITY);  // behind the back of the graph, which refuses them itself
  for (const Format& format : kFormats) {
    EXPECT_NE(error_of([&] { format.write(graph, at(format.file)); }).find(": weights must be finite to be written"),
              std::string::npos);
  }
  EXPECT_EQ(files(), 0u);
}

TEST_F(GraphWriters, LeaveNothingBehindWhenTheyFail) {
  const Graph graph = Graph::path(63);
  for (const Format& format : kFormats) {
    const auto error = [&](const std::string& path) { return error_of([&] { format.write(graph, path); }); };
    EXPECT_NE(error(at("missing/g.txt")).find("missing/g.txt: cannot write: No such file or directory"),
              std::string::npos);
    EXPECT_NE(error(folder_.string()).find(": cannot write: it is a directory"), std::string::npos);
    EXPECT_NE(error("/dev/null").find("/dev/null: cannot write: it is not a regular file"), std::string::npos);
  }
  EXPECT_EQ(files(), 0u);
}

TEST_F(GraphWriters, KeepTheOldFileWhenTheDiskIsFull) {
  const auto previous = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  write_snap(Graph::path(2), at("g.txt"));
  const std::string old = get(at("g.txt"));
  const rlimit small{1000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string error = error_of([&] { write_snap(Graph::path(1000), at("g.txt")); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, previous);
  EXPECT_EQ(error, "write_snap: " + at("g.txt") + ": cannot write: File too large");
  EXPECT_EQ(get(at("g.txt")), old);
  EXPECT_EQ(files(), 1u);
}

TEST_F(ReadGraph, ListsTheExtensionsItKnows) {
  EXPECT_EQ(
      error_of([] { read_graph("some.folder/graph"); }),
      "read_graph: some.folder/graph: the extension must be one of .txt .edges .el (SNAP), .graph .metis (METIS), "
      ".mtx (Matrix Market), each with or without .gz, or .npz");
}

TEST_F(ReadGraph, TakesExtensionsInEitherCase) {
  write_snap(Graph::path(4), at("G.TXT"));
  expect_same(read_graph(at("G.TXT")), Graph::path(4));
}

TEST_F(ReadGraph, PassesOptionsOn) {
  put("g.el", "0 1 0.1\n1 0 3\n2 2 1\n");
  const Graph graph = read_graph(
      at("g.el"), {.duplicates = Duplicates::sum, .self_loops = SelfLoops::drop, .weight_dtype = at::kDouble});
  EXPECT_EQ(graph.num_nodes(), 3);
  EXPECT_EQ(graph.num_edges(), 1);
  EXPECT_EQ(graph.weights()[0].item<double>(), 0.1 + 3);
  EXPECT_NE(error_of([&] { read_graph(at("g.el"), {.duplicates = Duplicates::refuse}); }).find(at("g.el")),
            std::string::npos);
}

}  // namespace
}  // namespace topomask::testing

#include <set>

#include "data/graphs/features.h"
#include "data/graphs/graph_files.h"
#include "data/graphs/names.h"
#include "support/compare.h"

using namespace topomask;
using namespace topomask::testing;

namespace {

void expect_options_refused(const GraphDataOptions& options, const std::string& text) {
  EXPECT_ERROR(options.check(), "open_graphs: data." + text);
  EXPECT_ERROR(open_graphs(options), "open_graphs: data." + text);
}

struct NameCollector {
  std::map<std::string, std::string> helps;
  template <class T>
  void operator()(const char* name, T&, const char* help) {
    EXPECT_TRUE(helps.emplace(name, help).second) << name;
  }
};

}  // namespace

TEST(GraphDataOptions, AreInRange) {
  GraphDataOptions().check();
  expect_options_refused(
      {.kind = "tues"},
      "kind must be one of tu, citation, conllu, wordnet, graph, motif, cycle, mesh, radhar, got tues");
  expect_options_refused({.features = "x"}, "features must be given, degree, one_hot_degree or constant, got x");
  expect_options_refused({.scaling = "x"}, "scaling must be none, rows or columns, got x");
  expect_options_refused({.degree_limit = 0}, "degree_limit must be from 1 to 65536, got 0");
  expect_options_refused({.ngram_features = 0}, "ngram_features must be from 1 to 65536, got 0");
  expect_options_refused({.given_labels = NAN}, "given_labels must be in [0, 1), got nan");
  expect_options_refused({.kind = "citation", .splits = "x.json"},
                         "splits must be empty where kind is not tu, got x.json");
  expect_options_refused({.fold = -1}, "fold must be from 0 to 1048576, got -1");
  expect_options_refused({.fold = 1}, "fold must be 0 where splits names no file, got 1");
  expect_options_refused({.inner_split = 1}, "inner_split must be 0 where splits names no file, got 1");
  expect_options_refused({.train_per_class = 0}, "train_per_class must be from 1 to 2147483647, got 0");
  expect_options_refused({.validation_per_class = -1}, "validation_per_class must be from 0 to 2147483647, got -1");
  expect_options_refused({.validation_fraction = -.1}, "validation_fraction must be in [0, 1), got -0.1");
  expect_options_refused({.test_fraction = 1}, "test_fraction must be in [0, 1), got 1");
  expect_options_refused({.validation_fraction = .5, .test_fraction = .5},
                         "test_fraction must be such that something is left");
  expect_options_refused({.kind = "wordnet", .given_labels = .9}, "test_fraction must be such that something is left");
  expect_options_refused({.motif = "x"}, "motif must be caveman, cycle, grid, ladder or circular_ladder, got x");
  expect_options_refused({.generated_train = -1}, "generated_train must be from 0 to 4194304, got -1");
  expect_options_refused({.generated_test = INT64_MAX}, "generated_test must be from 0 to 4194304, got");
  expect_options_refused({.edges = "x"}, "edges must be given or nearest, got x");
  expect_options_refused({.kind = "mesh", .rotate = "x"}, "rotate must be none, vertical or any, got x");
  expect_options_refused({.rotate = "any"}, "rotate must be none where kind is not mesh or radhar, got any");
  expect_options_refused({.kind = "mesh", .scaling = "columns", .rotate = "any"},
                         "rotate must be none where scaling is columns");
  expect_options_refused({.neighbours = 0}, "neighbours must be from 1 to 1024, got 0");
  expect_options_refused({.points = -1}, "points must be from 0 to 16777216, got -1");
  expect_options_refused({.kind = "mesh", .jitter = -1}, "jitter must be >= 0, got -1");
  expect_options_refused({.jitter = 1}, "jitter must be 0 where kind is not mesh or radhar, got 1");
  for (const char* kind : {"mesh", "radhar"}) {
    expect_options_refused({.kind = kind, .features = "degree", .rotate = "any"},
                           "rotate must be none where features is not given, since others have no places, got any");
    expect_options_refused({.kind = kind, .features = "constant", .jitter = .1},
                           "jitter must be 0 where features is not given, since others have no places, got 0.1");
  }
  expect_options_refused({.window = 0}, "window must be from 1 to 1048576, got 0");
  expect_options_refused({.stride = 0}, "stride must be from 1 to 1048576, got 0");
}

TEST(GraphDataOptions, AreExplained) {
  GraphDataOptions options;
  NameCollector names;
  visit(names, options);
  EXPECT_EQ(names.helps.size(), 31);
  for (const std::string& kind : kGraphKindNames.all()) {
    EXPECT_NE(names.helps["kind"].find(kind), std::string::npos) << kind;
  }
  for (const std::string& motif : kMotifNames.all()) {
    EXPECT_NE(names.helps["motif"].find(motif), std::string::npos) << motif;
  }
  for (const std::string& features : kNodeFeatureNames.all()) {
    EXPECT_NE(names.helps["features"].find(features), std::string::npos) << features;
  }
}

TEST(GraphFeatures, AreRefusedBeforeMemoryIsTaken) {
  check_feature_size({"open_graphs", "x"}, 1 << 20, 1 << 12);
  EXPECT_ERROR(check_feature_size({"open_graphs", "x"}, 1 << 20, 1 << 13),
               "open_graphs: x: features of 1048576 nodes with 8192 columns would take more than 16 GiB");
}

TEST(GraphFileSet, IsOneGraphWithoutLabels) {
  const TemporaryFolder folder;
  write_file(folder / "edges.txt", "0 1\n1 2\n2 3\n3 4\n4 5\n5 6\n6 7\n7 8\n8 9\n");
  GraphDataOptions options{.kind = "graph", .path = folder / "edges.txt", .features = "degree"};
  const auto [set, split] = open_graphs(options);
  EXPECT_EQ(set.name, "edges");
  EXPECT_EQ(set.graph.num_edges(), 9);
  EXPECT_TRUE(set.labels.equal(at::full({10}, -1, at::kLong)));
  EXPECT_EQ(set.features[0].item<float>(), 1);
  EXPECT_TRUE(split.by_node);
  EXPECT_EQ(split.train.size(), 8);
  EXPECT_EQ(split.validation.size(), 1);
  options.features = "given";
  EXPECT_ERROR(open_graphs(options), "a file of edges has no features: data.features must be degree, one_hot_degree");
  options.path = folder / "x.graph.xz";
  write_file(options.path, "x");
  EXPECT_ERROR(open_graphs(options), "xz files are not read; unpack it first: xz -dk");
}

TEST(GraphFileSet, NamesTheOperationAndTheReaderInErrors) {
  const TemporaryFolder folder;
  const auto error_of = [&](const char* name, const char* text) -> std::string {
    write_file(folder / name, text);
    try {
      open_graphs({.kind = "graph", .path = folder / name, .features = "degree"});
    } catch (const c10::Error& error) {
      return error.what_without_backtrace();
    }
    return "no error";
  };
  const auto start = [&](const char* reader, const char* name) {
    return c10::str("open_graphs: ", reader, ": ", std::string(folder / name), ":");
  };
  EXPECT_TRUE(error_of("a.txt", "0 x\n").starts_with(start("read_snap", "a.txt")));
  EXPECT_TRUE(error_of("a.graph", "2 1\n2\n9\n").starts_with(start("read_metis", "a.graph")));
  EXPECT_TRUE(error_of("a.mtx", "x\n").starts_with(start("read_matrix_market", "a.mtx")));
  EXPECT_TRUE(error_of("a.npz", "x").starts_with(start("read_npz", "a.npz")));
  EXPECT_TRUE(error_of("a.csv", "x").starts_with(start("read_graph", "a.csv")));
}

/// Two paths, 0 … 9 and 10 … 12, and a node that stands alone.
GraphDataOptions two_paths(const TemporaryFolder& folder) {
  write_file(folder / "edges.txt", "# Nodes: 14\n0 1\n1 2\n2 3\n3 4\n4 5\n5 6\n6 7\n7 8\n8 9\n10 11\n11 12\n");
  return {.kind = "graph", .path = folder / "edges.txt", .features = "constant", .labels = "regions", .regions = 2};
}

TEST(GraphFileSet, HasTheNearestOfSomeNodesAsLabels) {
  const TemporaryFolder folder;
  GraphDataOptions options = two_paths(folder);
  bool apart = false;
  for (options.seed = 0; options.seed < 20; ++options.seed) {
    const GraphSet set = open_graphs(options).set;
    EXPECT_EQ(set.classes, (std::vector<std::string>{"region 0", "region 1"}));
    const at::Tensor labels = set.labels, first = labels.slice(0, 0, 10), second = labels.slice(0, 10, 13);
    // A path has at most one border, and is labelled whole or not at all.
    EXPECT_LE((first.diff() != 0).sum().item<int64_t>(), 1);
    EXPECT_TRUE((first >= 0).all().item<bool>() || (first == -1).all().item<bool>());
    EXPECT_EQ(second.min().item<int64_t>() < 0, second.max().item<int64_t>() < 0);
    EXPECT_GT(labels.max().item<int64_t>(), -1);
    apart = apart || (first[0].item<int64_t>() >= 0 && first[9].item<int64_t>() >= 0 &&
                      first[0].item<int64_t>() != first[9].item<int64_t>());
  }
  EXPECT_TRUE(apart);     // both seeds on the long path, for some draw
  options.regions = 100;  // as many as there are nodes
  const GraphSet every = open_graphs(options).set;
  EXPECT_EQ(every.classes.size(), 14U);
  EXPECT_TRUE(std::get<0>(every.labels.sort()).equal(at::arange(14)));
}

TEST(GraphFileSet, GivesSomeLabelsAsFeaturesAndHidesTheRest) {
  const TemporaryFolder folder;
  GraphDataOptions options = two_paths(folder);
  options.regions = 14;
  options.given_labels = 0.5;
  options.validation_fraction = options.test_fraction = 0.15;
  const auto [set, split] = open_graphs(options);
  EXPECT_EQ(set.num_features(), 15);
  const at::Tensor told = set.features.slice(1, 1);
  EXPECT_EQ(told.sum().item<float>(), 7);
  EXPECT_TRUE(split.by_node);
  EXPECT_EQ(split.train.size(), 3U);
  EXPECT_EQ(split.validation.size(), 2U);
  EXPECT_EQ(split.test.size(), 2U);
  for (const auto* part : {&split.train, &split.validation, &split.test}) {
    for (const int64_t node : *part) EXPECT_EQ(told[node].sum().item<float>(), 0) << node;
  }
  const at::Tensor given = told.sum(1).nonzero().squeeze(1);
  EXPECT_TRUE(told.argmax(1).index_select(0, given).equal(set.labels.index_select(0, given)));
  options.kind = "motif";
  EXPECT_ERROR(open_graphs(options), "data.labels must be none where kind is not graph, got regions");
}

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
  expect_options_refused({.kind = "tues"},
                         "kind must be one of tu, citation, conllu, wordnet, graph, motif, cycle, got tues");
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
}

TEST(GraphDataOptions, AreExplained) {
  GraphDataOptions options;
  NameCollector names;
  visit(names, options);
  EXPECT_EQ(names.helps.size(), 22);
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

#include <filesystem>

#include "data/graphs/graph_files.h"
#include "support/compare.h"

using namespace topomask;
using namespace topomask::testing;

static const std::filesystem::path kGraphData = TOPOMASK_DATA_DIR;

#define NEEDS(file) \
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "needs " << (file)

struct TuCase {
  const char* name;
  const char* splits;  ///< in tu/splits
  int64_t graphs, classes, features;
};

void PrintTo(const TuCase& c, std::ostream* out) {
  *out << c.name;
}

class RealTuSets : public ::testing::TestWithParam<TuCase> {};

namespace {

/// Unpacks an archive of the data into the folder.
bool unpack(const std::string& command, const std::filesystem::path& file, const TemporaryFolder& folder) {
  return std::system(("cd '" + folder.path().string() + "' && " + command + " '" + file.string() + "'").c_str()) == 0;
}

std::string set_name(const ::testing::TestParamInfo<TuCase>& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace

TEST_P(RealTuSets, HaveTheirCountsAndFolds) {
  const TuCase& expected = GetParam();
  const std::filesystem::path sets = kGraphData / "tu";
  const TemporaryFolder folder;
  auto source = sets / (std::string(expected.name) + ".zip");
  if (const auto archive = sets / (std::string(expected.name) + ".tar.xz"); std::filesystem::exists(archive)) {
    if (!unpack("tar -xf", archive, folder)) GTEST_SKIP() << "needs tar and xz";
    source = folder.path() / expected.name;
  }
  NEEDS(source);
  GraphDataOptions options{.kind = "tu", .path = source.string()};
  if (expected.features == 0) options.features = "degree";
  if (*expected.splits != '\0') options.splits = (kGraphData / "tu/splits" / expected.splits).string();
  const auto [set, split] = open_graphs(options);
  EXPECT_EQ(set.name, expected.name);
  EXPECT_EQ(set.size(), expected.graphs);
  EXPECT_EQ(static_cast<int64_t>(set.classes.size()), expected.classes);
  EXPECT_EQ(set.num_features(), std::max<int64_t>(expected.features, 1));
  EXPECT_EQ(set.features.size(0), set.num_nodes());
  EXPECT_EQ(static_cast<int64_t>(split.train.size() + split.validation.size() + split.test.size()), expected.graphs);
  if (options.splits.empty()) return;
  // The test sets of the ten folds are a partition.
  std::vector<int64_t> tested(split.test);
  for (options.fold = 1; options.fold < 10; ++options.fold) {
    const GraphSplit other = open_graphs(options).split;
    tested.insert(tested.end(), other.test.begin(), other.test.end());
  }
  std::sort(tested.begin(), tested.end());
  EXPECT_EQ(static_cast<int64_t>(tested.size()), expected.graphs);
  EXPECT_EQ(std::unique(tested.begin(), tested.end()), tested.end());
}

INSTANTIATE_TEST_SUITE_P(
    Sets, RealTuSets,
    ::testing::Values(TuCase{"MUTAG", "", 188, 2, 7}, TuCase{"ENZYMES", "CHEMICAL/ENZYMES_splits.json", 600, 6, 3 + 18},
                      TuCase{"PROTEINS", "CHEMICAL/PROTEINS_full_splits.json", 1113, 2, 3 + 1},
                      TuCase{"NCI1", "CHEMICAL/NCI1_splits.json", 4110, 2, 37},
                      TuCase{"IMDB-BINARY", "COLLABORATIVE_1/IMDB-BINARY_splits.json", 1000, 2, 0},
                      TuCase{"IMDB-MULTI", "COLLABORATIVE_DEGREE/IMDB-MULTI_splits.json", 1500, 3, 0}),
    set_name);

// The larger ones once, without folds.
INSTANTIATE_TEST_SUITE_P(LargeSetsSlow, RealTuSets,
                         ::testing::Values(TuCase{"DD", "", 1178, 2, 82}, TuCase{"REDDIT-BINARY", "", 2000, 2, 0},
                                           TuCase{"REDDIT-MULTI-5K", "", 4999, 5, 0}, TuCase{"COLLAB", "", 5000, 3, 0}),
                         set_name);

TEST(RealTu, BatchesAreTheGraphsOfTheSet) {
  const auto file = kGraphData / "tu/MUTAG.zip";
  NEEDS(file);
  const auto [set, split] = open_graphs({.kind = "tu", .path = file.string()});
  EXPECT_EQ(set.num_nodes(), 3371);
  EXPECT_EQ(set.graph.num_edges(), 3721);
  const GraphSample sample = take(set, split.test);
  const at::Tensor chosen = at::tensor(split.test, at::kLong);
  EXPECT_TRUE(sample.labels.equal(set.labels.index_select(0, chosen)));
  EXPECT_TRUE(sample.graph.degrees().equal(set.graph.degrees().index_select(0, sample.nodes)));
}

struct CitationCase {
  const char* name;
  int64_t nodes, edges, classes, features;
};

TEST(RealCitation, NetworksHaveTheirCounts) {
  const CitationCase cases[] = {{"cora", 2708, 5278, 7, 1433},
                                {"citeseer", 3312, 4536, 6, 3703},
                                {"dblp", 17716, 52867, 4, 1639},
                                {"amazon_cs", 13752, 245861, 10, 767},
                                {"coauthor_phy", 34493, 247962, 5, 8415}};
  for (const CitationCase& expected : cases) {
    const auto file = kGraphData / "citation" / (std::string(expected.name) + ".npz");
    NEEDS(file);
    const auto [set, split] = open_graphs({.kind = "citation", .path = file.string()});
    EXPECT_EQ(set.num_nodes(), expected.nodes);
    EXPECT_EQ(set.graph.num_edges(), expected.edges);
    EXPECT_EQ(static_cast<int64_t>(set.classes.size()), expected.classes);
    EXPECT_EQ(set.num_features(), expected.features);
    EXPECT_EQ(static_cast<int64_t>(split.train.size()), 20 * expected.classes);
    EXPECT_EQ(static_cast<int64_t>(split.validation.size()), 30 * expected.classes);
    EXPECT_EQ(static_cast<int64_t>(split.test.size()), expected.nodes - 50 * expected.classes);
  }
}

TEST(RealCitation, FeaturesHaveTheirEntries) {
  const auto file = kGraphData / "citation/cora.npz";
  NEEDS(file);
  const GraphSet set = open_graphs({.kind = "citation", .path = file.string(), .scaling = "rows"}).set;
  EXPECT_EQ(set.features.count_nonzero().item<int64_t>(), 49216);
  const at::Tensor sums = set.features.sum(1);
  EXPECT_TRUE(((sums - 1).abs() < 1e-5).logical_or(sums == 0).all().item<bool>());
}

TEST(RealTrees, EnglishSentencesHaveTheirCounts) {
  const auto file = kGraphData / "trees/en_ewt-ud-dev.conllu.xz";
  NEEDS(file);
  const TemporaryFolder folder;
  for (const char* part : {"dev", "test", "train_rebuilt"}) {
    const std::string name = std::string("en_ewt-ud-") + part + ".conllu";
    if (!unpack("xz -dc > " + name, kGraphData / "trees" / (name + ".xz"), folder)) GTEST_SKIP() << "needs xz";
  }
  const auto [set, split] = open_graphs({.kind = "conllu", .path = folder.path().string(), .features = "constant"});
  EXPECT_EQ(split.train.size(), 12544);
  EXPECT_EQ(split.validation.size(), 2001);
  EXPECT_EQ(split.test.size(), 2077);
  EXPECT_EQ(set.graph.num_edges(), set.num_nodes() - set.size());  // one root in each sentence
  EXPECT_EQ((set.parents < 0).sum().item<int64_t>(), set.size());
}

TEST(RealTrees, NounsHaveTheirCounts) {
  const auto file = kGraphData / "trees/wordnet_noun_tree.npz";
  NEEDS(file);
  const auto [set, split] = open_graphs({.kind = "wordnet", .path = file.string()});
  EXPECT_EQ(set.num_nodes(), 82115);
  EXPECT_EQ(set.graph.num_edges(), 82114);
  EXPECT_EQ(set.classes.size(), 26);
  EXPECT_EQ(set.classes[0], "noun.Tops");
  EXPECT_EQ(split.test.size(), 8212);  // a tenth, rounded
}

TEST(RealGraphsSlow, RoadsHaveTheirCounts) {
  const auto file = kGraphData / "graphs/roads-12-cities.txt.gz";
  NEEDS(file);
  const GraphSet set = open_graphs({.kind = "graph", .path = file.string(), .features = "degree"}).set;
  EXPECT_EQ(set.num_nodes(), 1988158);
  EXPECT_EQ(set.graph.num_edges(), 2214174);
}

TEST(RealMeshes, AreSplitAsPublished) {
  const auto file = kGraphData / "meshes/shrec_16.tar.xz";
  NEEDS(file);
  const TemporaryFolder folder;
  ASSERT_TRUE(unpack("tar -xJf", file, folder));
  const auto [set, split] =
      open_graphs({.kind = "mesh", .path = (folder.path() / "datasets/shrec_16").string(), .validation_fraction = 0});
  EXPECT_EQ(set.size(), 600);
  EXPECT_EQ(set.classes.size(), 30U);
  EXPECT_EQ(split.train.size(), 480U);
  EXPECT_EQ(split.test.size(), 120U);
  EXPECT_TRUE(set.features.isfinite().all().item<bool>());
  // Closed surfaces: the angle defects add up to 2π times the Euler characteristic, vertices − edges + triangles, which
  // is even; a triangle has three half-edges, so that triangles are two thirds of the edges.
  for (int64_t g = 0; g < 600; g += 50) {
    const int64_t first = set.offsets[g].item<int64_t>(), last = set.offsets[g + 1].item<int64_t>();
    const int64_t edges = set.graph.degrees().slice(0, first, last).sum().item<int64_t>() / 2;
    const double defects = set.features.slice(0, first, last).select(1, 7).to(at::kDouble).sum().item<double>();
    EXPECT_NEAR(defects / 2, static_cast<double>(last - first) - static_cast<double>(edges) / 3, 1e-3) << g;
  }
}

TEST(RealRadar, HasItsCounts) {
  const auto file = kGraphData / "radhar/radhar.npz";
  NEEDS(file);
  const auto [set, split] = open_graphs({.kind = "radhar",
                                         .path = file.string(),
                                         .validation_fraction = 0,
                                         .neighbours = 3,
                                         .points = 16,
                                         .window = 60,
                                         .stride = 60});
  EXPECT_EQ(set.size(), 1853);
  EXPECT_EQ(split.test.size(), 547U);
  EXPECT_EQ(set.num_nodes(), 16 * set.size());
  EXPECT_TRUE(set.features.isfinite().all().item<bool>());
}

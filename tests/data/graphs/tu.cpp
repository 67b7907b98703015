#include "data/graphs/graph_files.h"
#include "support/compare.h"

using namespace topomask;
using namespace topomask::testing;

namespace {

GraphDataOptions tu_options(const std::string& path) {
  return {.kind = "tu", .path = path, .test_fraction = 0};
}

void check_small(const GraphSet& set) {
  EXPECT_EQ(set.name, "small");
  EXPECT_EQ(set.size(), 3);
  EXPECT_FALSE(set.node_labels);
  EXPECT_FALSE(set.parents.defined());
  EXPECT_EQ(set.classes, (std::vector<std::string>{"-1", "5"}));
  EXPECT_TRUE(set.labels.equal(at::tensor({1, 0, 1}, at::kLong)));
  EXPECT_TRUE(set.offsets.equal(at::tensor({0, 3, 5, 6}, at::kLong)));
  EXPECT_EQ(set.graph.num_edges(), 4);
  EXPECT_TRUE(set.graph.degrees().equal(at::tensor({2, 2, 2, 1, 1, 0}, at::kLong)));
  // Node labels 3, 7 and 9 as unit vectors, then the attributes.
  const at::Tensor expected = at::tensor({0.F, 1.F, 0.F, .5F,  -1.F,  1.F, 0.F, 0.F, 1.5F, 2.F,  //
                                          1.F, 0.F, 0.F, 2.5F, 300.F, 0.F, 1.F, 0.F, 3.5F, 4.F,  //
                                          0.F, 1.F, 0.F, 4.5F, 5.F,   0.F, 0.F, 1.F, 5.5F, 6.F})
                                  .reshape({6, 5});
  EXPECT_TRUE(set.features.equal(expected)) << set.features;
}

/// Writes the small set with one part replaced, and expects the error; an empty text removes the part.
void expect_tu_damaged(const std::string& part, const std::string& text, const std::string& fault) {
  TuTexts texts = small_tu();
  texts[part] = text;
  if (text.empty()) texts.erase(part);
  const TemporaryFolder folder, archive;
  EXPECT_ERROR(open_graphs(tu_options(write_tu(folder, texts))), fault);
  EXPECT_ERROR(open_graphs(tu_options(write_zip(archive, texts))), fault);
}

}  // namespace

TEST(TuSet, IsReadFromAFolder) {
  const TemporaryFolder folder;
  check_small(open_graphs(tu_options(write_tu(folder, small_tu()))).set);
}

TEST(TuSet, IsReadFromAnArchive) {
  const TemporaryFolder folder;
  check_small(open_graphs(tu_options(write_zip(folder, small_tu()))).set);
}

TEST(TuSet, MayHaveWindowsLineEndsAndEmptyLinesAtTheEnd) {
  TuTexts texts = small_tu();
  for (auto& [part, text] : texts) {
    std::string changed;
    for (const char c : text) changed += c == '\n' ? std::string("\r\n") : std::string(1, c);
    text = changed + "\r\n \n";
  }
  const TemporaryFolder folder;
  check_small(open_graphs(tu_options(write_tu(folder, texts))).set);
}

TEST(TuSet, ReadsAnEdgeThatIsListedOnceAsUndirected) {
  TuTexts texts = small_tu();
  texts["A"] = "1,2\n2 3\n1,\t3\n4, 5";
  const TemporaryFolder folder;
  check_small(open_graphs(tu_options(write_tu(folder, texts))).set);
}

TEST(TuSet, MayHaveSeveralNodeLabels) {
  const TemporaryFolder folder;
  TuTexts texts = small_tu();
  texts["node_labels"] = "7, 0\n3, 0\n3, -2\n7, 5\n7, 5\n9, 0\n";
  texts.erase("node_attributes");
  // Labels 3, 7 and 9 of the first column, then −2, 0 and 5 of the second.
  const at::Tensor expected = at::tensor({0.F, 1.F, 0.F, 0.F, 1.F, 0.F, 1.F, 0.F, 0.F, 0.F, 1.F, 0.F,  //
                                          1.F, 0.F, 0.F, 1.F, 0.F, 0.F, 0.F, 1.F, 0.F, 0.F, 0.F, 1.F,  //
                                          0.F, 1.F, 0.F, 0.F, 0.F, 1.F, 0.F, 0.F, 1.F, 0.F, 1.F, 0.F})
                                  .reshape({6, 6});
  const at::Tensor features = open_graphs(tu_options(write_tu(folder, texts))).set.features;
  EXPECT_TRUE(features.equal(expected)) << features;
  expect_tu_damaged("node_labels", "1, 2\n1, 2\n1\n1, 2\n1, 2\n1, 2\n",
                    "small_node_labels.txt:3: expected 2 node labels, as on the first line, got 1");
  expect_tu_damaged("node_labels", "1\n1, 2\n1\n1\n1\n1\n",
                    "small_node_labels.txt:2: expected 1 node labels, as on the first line, got 2");
  expect_tu_damaged("node_labels", "1, x\n", "small_node_labels.txt:1: expected a node label, got \"x\"");
}

TEST(TuSet, MayHaveNoEdge) {
  const TemporaryFolder folder;
  TuTexts texts = small_tu();
  texts["A"] = "\n";
  EXPECT_EQ(open_graphs(tu_options(write_tu(folder, texts))).set.graph.num_edges(), 0);
}

TEST(TuSet, HasFeaturesByChoice) {
  const TemporaryFolder folder;
  TuTexts texts = small_tu();
  texts.erase("node_labels");
  GraphDataOptions options = tu_options(write_tu(folder, texts));
  EXPECT_EQ(open_graphs(options).set.num_features(), 2);
  options.features = "degree";
  EXPECT_TRUE(open_graphs(options).set.features.equal(at::tensor({2.F, 2.F, 2.F, 1.F, 1.F, 0.F}).unsqueeze(1)));
  options.features = "constant";
  EXPECT_TRUE(open_graphs(options).set.features.equal(at::ones({6, 1})));
  options.features = "one_hot_degree";
  options.degree_limit = 1;  // degree 2 shares the column of degree 1
  const at::Tensor last = at::tensor({1.F, 1.F, 1.F, 1.F, 1.F, 0.F});
  EXPECT_TRUE(open_graphs(options).set.features.equal(at::stack({1 - last, last}, 1)));
  const TemporaryFolder bare;
  texts.erase("node_attributes");
  const std::string path = write_tu(bare, texts);
  EXPECT_ERROR(open_graphs(tu_options(path)),
               path +
                   ": the set has neither node labels nor node attributes: data.features must be degree, "
                   "one_hot_degree or constant, got given");
}

TEST(TuSet, HasScaledFeaturesByChoice) {
  const TemporaryFolder folder;
  TuTexts texts = small_tu();
  texts.erase("node_labels");
  texts["node_attributes"] = "1, -3\n1, 2\n1, 3\n1, 0\n0, 0\n1, 9\n";
  write_file(folder / "folds.json", R"([{"test": [1], "model_selection": [{"train": [0, 2], "validation": []}]}])");
  GraphDataOptions options = tu_options(write_tu(folder, texts));
  options.splits = folder / "folds.json";
  options.scaling = "rows";
  EXPECT_TRUE(close(open_graphs(options).set.features,
                    at::tensor({.25, -.75, 1 / 3., 2 / 3., .25, .75, 1., 0., 0., 0., .1, .9}).reshape({6, 2}), 1e-6));
  options.scaling = "columns";
  const at::Tensor scaled = open_graphs(options).set.features;
  const at::Tensor trained_on = scaled.index_select(0, at::tensor({0, 1, 2, 5}, at::kLong)).select(1, 1);
  EXPECT_TRUE(close(trained_on.mean(), at::zeros({}), 1, 1e-6));
  EXPECT_TRUE(close(trained_on.square().mean(), at::ones({}), 1e-6));
  // A column that is constant on the training graphs is only shifted.
  EXPECT_TRUE(scaled.select(1, 0).equal(at::tensor({0.F, 0.F, 0.F, 0.F, -1.F, 0.F})));
}

TEST(TuSet, IsRefusedWhereAPartIsMissing) {
  expect_tu_damaged("graph_labels", "", "a TU set needs a file NAME_graph_labels.txt, which is missing");
  expect_tu_damaged("graph_indicator", "", "a TU set needs a file NAME_graph_indicator.txt, which is missing");
  expect_tu_damaged("A", "", "no file NAME_A.txt, which every TU set has");
}

TEST(TuSet, IsRefusedWithTheLineOfTheFault) {
  expect_tu_damaged("A", "1, 2\n2, x\n", "small_A.txt:2: expected a second node id, got \"x\"");
  expect_tu_damaged("A", "1, 2\n2\n", "small_A.txt:2: expected a second node id, got the end of the line");
  expect_tu_damaged("A", "1, 2,\n", "small_A.txt:1: expected a number after the comma, got the end of the line");
  expect_tu_damaged("A", "1, 2, 3\n", "small_A.txt:1: expected the end of the line, got \"3\"");
  expect_tu_damaged("A", "1, 2\n\n2, 3\n", "small_A.txt:3: an empty line must not stand before others");
  expect_tu_damaged("A", "1, 2\n7, 1\n",
                    "small_A.txt:2: a node id must be from 1 to 6, the lines of graph_indicator, got 7");
  expect_tu_damaged("A", "0, 2\n", "small_A.txt:1: a node id must be from 1 to 6, the lines of graph_indicator, got 0");
  expect_tu_damaged("A", "99999999999999999999, 2\n",
                    "small_A.txt:1: expected a node id, got \"99999999999999999999\"");
  expect_tu_damaged("A", "1, 2\n3, 4\n",
                    "small_A.txt:2: nodes 3 and 4 belong to graphs 1 and 2, an edge must be inside one");
  expect_tu_damaged("graph_labels", "5\n1.5\n5\n", "small_graph_labels.txt:2: expected a graph label, got \"1.5\"");
  expect_tu_damaged("graph_labels", "\n", "the set has no graph: graph_labels is empty");
  expect_tu_damaged("node_attributes", "1, 2\n3\n1\n1\n1\n1\n",
                    "small_node_attributes.txt:2: expected 2 attributes, as on the first line, got 1");
  expect_tu_damaged("node_attributes", "1\nnan\n1\n1\n1\n1\n",
                    "small_node_attributes.txt:2: expected a node attribute that is finite in float32, got \"nan\"");
  expect_tu_damaged("node_attributes", "1\n1e39\n1\n1\n1\n1\n", "that is finite in float32, got \"1e39\"");
}

TEST(TuSet, IsRefusedWhereItsPartsDisagree) {
  expect_tu_damaged("graph_indicator", "1\n1\n2\n1\n2\n3\n",
                    "small_graph_indicator.txt:4: graphs must ascend, got 1 after 2");
  expect_tu_damaged("graph_indicator", "1\n1\n1\n3\n3\n3\n",
                    "small_graph_indicator.txt:4: graph 2 has no node: got 3 after 1");
  expect_tu_damaged("graph_indicator", "1\n1\n1\n2\n2\n4\n",
                    "small_graph_indicator.txt:6: a graph must be from 1 to 3, the lines of graph_labels, got 4");
  expect_tu_damaged("graph_indicator", "1\n1\n1\n2\n2\n2\n", "small_graph_indicator.txt: graph 3 of 3 has no node");
  expect_tu_damaged("node_labels", "1\n1\n",
                    "small_node_labels.txt: must have a line for each of the 6 nodes of "
                    "graph_indicator, got 2");
  expect_tu_damaged("node_attributes", "1\n1\n", "must have a line for each of the 6 nodes of graph_indicator, got 2");
}

TEST(TuSet, IsRefusedWhereNodeLabelsAreIds) {
  TuTexts texts{{"A", "1, 2\n"}, {"graph_labels", "1\n"}};
  for (int64_t i = 0; i < 4097; ++i) {
    texts["graph_indicator"] += "1\n";
    texts["node_labels"] += std::to_string(i) + "\n";
  }
  const TemporaryFolder folder;
  EXPECT_ERROR(open_graphs(tu_options(write_tu(folder, texts))),
               "small_node_labels.txt: node labels must be at most 4096 different integers, got 4097; data.features = "
               "degree, one_hot_degree or constant leaves them out");
}

TEST(TuSet, IsRefusedWhereItIsPackedOrAbsent) {
  const TemporaryFolder folder;
  write_file(folder / "COLLAB.tar.xz", "x");
  EXPECT_ERROR(open_graphs(tu_options(folder / "COLLAB.tar.xz")),
               "archives by tar are not read; unpack it first: tar -xf " + folder / "COLLAB.tar.xz");
  EXPECT_ERROR(open_graphs(tu_options(folder / "none")),
               "open_graphs: data.path must be a file or folder of kind tu, got '" + folder / "none" + "'");
  write_file(folder / "damaged.zip", "PK, and no more");
  EXPECT_ERROR(open_graphs(tu_options(folder / "damaged.zip")), "damaged.zip: not a zip archive, or cut short");
  write_file(folder / "a_A.txt", "");
  write_file(folder / "b_A.txt", "");
  EXPECT_ERROR(open_graphs(tu_options(folder.path().string())), "two TU sets");
}

TEST(TuSet, IsRefusedWhereTheArchiveIsDamaged) {
  const TemporaryFolder folder;
  const std::string path = write_zip(folder, small_tu());
  std::string bytes = read_file(path);
  bytes[bytes.find("4, 5\n5, 4")] = '5';
  write_file(path, bytes);
  EXPECT_ERROR(open_graphs(tu_options(path)), "checksum error, the data is damaged");
  write_file(path, bytes.substr(0, bytes.size() / 2));
  EXPECT_ERROR(open_graphs(tu_options(path)), "not a zip archive, or cut short");
}

#include <set>

#include "data/graphs/graph_files.h"
#include "support/compare.h"

using namespace topomask;
using namespace topomask::testing;

namespace {

/// A complete binary tree with labels of four lexicographer files.
std::string write_wordnet(const TemporaryFolder& folder, const std::vector<int64_t>& files) {
  std::vector<int64_t> parent;
  for (int64_t i = 0; i < static_cast<int64_t>(files.size()); ++i) parent.push_back(i == 0 ? -1 : (i - 1) / 2);
  return NpzFile(folder / "tree.npz").add("parent", parent).add("lexfile", files).write();
}

std::vector<int64_t> four_files() {
  std::vector<int64_t> files;
  for (int64_t i = 0; i < 1000; ++i) files.push_back(3 + i * 7 % 4);
  return files;
}

}  // namespace

TEST(WordnetSet, IsReadAsATree) {
  const TemporaryFolder folder;
  const auto [set, split] = open_graphs({.kind = "wordnet", .path = write_wordnet(folder, four_files())});
  EXPECT_EQ(set.size(), 1);
  EXPECT_EQ(set.graph.num_edges(), 999);
  EXPECT_EQ(set.classes, (std::vector<std::string>{"noun.Tops", "noun.act", "noun.animal", "noun.artifact"}));
  EXPECT_EQ(set.labels[1].item<int64_t>(), 3);
  EXPECT_EQ(set.parents[10].item<int64_t>(), 4);
  EXPECT_EQ(set.num_features(), 3 + 4);
  EXPECT_TRUE(close(set.features[0].slice(0, 0, 3), at::tensor({1., 0., std::log(3.)}), 1e-6));
  EXPECT_TRUE(close(set.features[999].slice(0, 0, 3), at::tensor({1., 1., 0.}), 1e-6));
  EXPECT_TRUE(split.by_node);
  EXPECT_EQ(split.train.size(), 300);
  EXPECT_EQ(split.validation.size(), 100);
  EXPECT_EQ(split.test.size(), 100);
}

TEST(WordnetSet, GivesLabelsOfNodesOutsideTheSplitOnly) {
  const TemporaryFolder folder;
  const auto [set, split] = open_graphs({.kind = "wordnet", .path = write_wordnet(folder, four_files())});
  std::set<int64_t> hidden(split.train.begin(), split.train.end());
  hidden.insert(split.validation.begin(), split.validation.end());
  hidden.insert(split.test.begin(), split.test.end());
  EXPECT_EQ(hidden.size(), 500);
  for (int64_t i = 0; i < set.num_nodes(); ++i) {
    const at::Tensor shown = set.features[i].slice(0, 3);
    ASSERT_EQ(shown.sum().item<double>(), hidden.contains(i) ? 0 : 1);
    if (hidden.contains(i)) continue;
    ASSERT_EQ(shown.argmax().item<int64_t>(), set.labels[i].item<int64_t>());
  }
}

TEST(WordnetSet, DoesNotLeakLabelsOfTheSplit) {
  const TemporaryFolder folder;
  GraphDataOptions options{.kind = "wordnet", .path = write_wordnet(folder, four_files())};
  const auto [set, split] = open_graphs(options);
  std::vector<int64_t> changed = four_files();
  for (const auto& part : {split.train, split.validation, split.test}) {
    for (const int64_t i : part) changed[static_cast<size_t>(i)] = 3 + (changed[static_cast<size_t>(i)] - 2) % 4;
  }
  options.path = write_wordnet(folder, changed);
  const auto [other, other_split] = open_graphs(options);
  EXPECT_FALSE(other.labels.equal(set.labels));
  EXPECT_TRUE(other.features.equal(set.features));
  EXPECT_EQ(other_split.test, split.test);
}

TEST(WordnetSet, IsRefusedByArray) {
  const TemporaryFolder folder;
  const auto expect = [&](const std::vector<int64_t>& parent, const std::vector<int64_t>& file, const char* fault) {
    const std::string path = NpzFile(folder / "x.npz").add("parent", parent).add("lexfile", file).write();
    EXPECT_ERROR(open_graphs({.kind = "wordnet", .path = path}), fault);
  };
  expect({-1, 2}, {3, 3}, "array \"parent\": must be from -1 to 1, got 2 at index 1");
  expect({-1, 0, 3, 2}, {3, 3, 3, 3}, "array \"parent\": node 2 must not be its own ancestor");
  expect({-1, 1}, {3, 3}, "array \"parent\": node 1 must not be its own ancestor");
  expect({-1}, {3, 3}, "array \"parent\": must be as long as lexfile, 2, got 1");
  expect({-1, 0}, {3, 45}, "array \"lexfile\": must be from 0 to 44, got 45 at index 1");
}

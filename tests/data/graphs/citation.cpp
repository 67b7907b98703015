#include "data/graphs/graph_files.h"
#include "support/compare.h"

using namespace topomask;
using namespace topomask::testing;

namespace {

NpzFile small_citation(const TemporaryFolder& folder) {
  NpzFile file(folder / "small.npz");
  file.add("src", std::vector<int64_t>{0, 1}).add("dst", std::vector<int64_t>{1, 2});
  file.add("y", std::vector<int64_t>{1, 0, 1, 0}).add("x_shape", std::vector<int64_t>{4, 3});
  file.add("x_indptr", std::vector<int64_t>{0, 2, 2, 3, 4}).add("x_indices", std::vector<int64_t>{0, 2, 1, 1});
  return file;
}

GraphDataOptions citation_options(const std::string& path) {
  return {.kind = "citation", .path = path, .train_per_class = 1, .validation_per_class = 1};
}

void expect_citation_damaged(const char* name, const std::vector<int64_t>& values, const std::string& fault) {
  const TemporaryFolder folder;
  EXPECT_ERROR(open_graphs(citation_options(small_citation(folder).add(name, values).write())),
               "open_graphs: " + folder / "small.npz" + ": array \"" + fault);
}

}  // namespace

TEST(CitationSet, IsReadFromItsArrays) {
  const TemporaryFolder folder;
  const auto [set, split] = open_graphs(citation_options(small_citation(folder).write()));
  EXPECT_EQ(set.name, "small");
  EXPECT_EQ(set.size(), 1);
  EXPECT_TRUE(set.node_labels);
  EXPECT_TRUE(set.labels.equal(at::tensor({1, 0, 1, 0}, at::kLong)));
  EXPECT_TRUE(set.graph.degrees().equal(at::tensor({1, 2, 1, 0}, at::kLong)));  // node 3 has no edge, and is there
  EXPECT_TRUE(
      set.features.equal(at::tensor({1.F, 0.F, 1.F, 0.F, 0.F, 0.F, 0.F, 1.F, 0.F, 0.F, 1.F, 0.F}).reshape({4, 3})));
  EXPECT_TRUE(split.by_node);
  EXPECT_EQ(split.train.size(), 2);
  EXPECT_EQ(split.validation.size(), 2);
  EXPECT_TRUE(split.test.empty());
}

TEST(CitationSet, MayHaveValues) {
  const TemporaryFolder folder;
  const auto file = small_citation(folder).add("x_data", std::vector<float>{.5F, -2, 3, 4});
  EXPECT_TRUE(open_graphs(citation_options(file.write()))
                  .set.features.equal(
                      at::tensor({.5F, 0.F, -2.F, 0.F, 0.F, 0.F, 0.F, 3.F, 0.F, 0.F, 4.F, 0.F}).reshape({4, 3})));
}

TEST(CitationSet, IsRefusedByArray) {
  expect_citation_damaged("src", {0, 4}, "src\": must be from 0 to 3, got 4 at index 1");
  expect_citation_damaged("dst", {0}, "dst\": must be as long as src, 2, got 1");
  expect_citation_damaged("y", {0, -2, 0, 0}, "y\": must be from -1 to 32767, got -2 at index 1");
  expect_citation_damaged("x_shape", {5, 3}, "x_shape\": must be [4 (the length of y), features], got [5, 3]");
  expect_citation_damaged("x_shape", {4}, "x_shape\": must be [4 (the length of y), features], got [4]");
  expect_citation_damaged("x_indices", {0, 3, 1, 1}, "x_indices\": must be from 0 to 2, got 3 at index 1");
  expect_citation_damaged("x_indptr", {0, 2, 1, 3, 4},
                          "x_indptr\": must ascend from 0 to 4, the length of x_indices, in 5 steps");
  expect_citation_damaged("x_indptr", {0, 2, 4}, "x_indptr\": must ascend from 0 to 4");
  expect_citation_damaged("x_indptr", {}, "x_indptr\": must ascend from 0 to 4");
  expect_citation_damaged("x_data", {1}, "x_data\": must be as long as x_indices, 4, got 1");
  const TemporaryFolder folder;
  const auto nan = small_citation(folder).add("x_data", std::vector<float>{1, NAN, 1, 1});
  EXPECT_ERROR(open_graphs(citation_options(nan.write())),
               "array \"x_data\": must be finite in float32, got nan at index 1");
  const auto missing = NpzFile(folder / "none.npz").add("y", std::vector<int64_t>{0});
  EXPECT_ERROR(open_graphs(citation_options(missing.write())), "none.npz: no array \"src\" in the archive");
}

TEST(CitationSet, IsRefusedBeforeMemoryIsTaken) {
  const TemporaryFolder folder;
  const int64_t nodes = 1 << 12;
  NpzFile file(folder / "wide.npz");
  file.add("src", std::vector<int64_t>{}).add("dst", std::vector<int64_t>{});
  file.add("y", std::vector<int64_t>(nodes)).add("x_shape", std::vector<int64_t>{nodes, (int64_t{1} << 31) - 1});
  file.add("x_indptr", std::vector<int64_t>(nodes + 1)).add("x_indices", std::vector<int64_t>{});
  EXPECT_ERROR(open_graphs(citation_options(file.write())),
               "array \"x_shape\": must have at most 65536 values for each of the 0 entries of x_indices, got [4096, ");
}

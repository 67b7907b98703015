#include "data/graphs/splits.h"

#include <set>

#include "data/graphs/graph_files.h"
#include "support/compare.h"

using namespace topomask;
using namespace topomask::testing;

namespace {

void expect_fold_refused(const std::string& json, const std::string& fault, int64_t fold = 0, int64_t inner = 0) {
  const TemporaryFolder folder;
  write_file(folder / "folds.json", json);
  EXPECT_ERROR(read_folds(folder / "folds.json", 4, fold, inner),
               "open_graphs: " + folder / "folds.json" + ": " + fault);
}

std::string fold_of(const std::string& train, const std::string& validation, const std::string& test) {
  return R"([{"test": )" + test + R"(, "model_selection": [{"train": )" + train + R"(, "validation": )" + validation +
         "}]}]";
}

/// Sizes of the parts, which must be disjoint.
std::vector<size_t> sizes_of(const GraphSplit& split, size_t total) {
  std::set<int64_t> all(split.train.begin(), split.train.end());
  all.insert(split.validation.begin(), split.validation.end());
  all.insert(split.test.begin(), split.test.end());
  EXPECT_EQ(all.size(), split.train.size() + split.validation.size() + split.test.size());
  EXPECT_EQ(all.size(), total);
  return {split.train.size(), split.validation.size(), split.test.size()};
}

}  // namespace

TEST(Folds, AreReadByNumber) {
  const TemporaryFolder folder;
  write_file(folder / "folds.json", R"([{"test": [0], "model_selection": [{"train": [3, 1], "validation": [2]}]},
      {"test": [3, 2], "model_selection": [{"train": [0], "validation": [1]}, {"train": [1], "validation": [0]}]}])");
  GraphSplit split = read_folds(folder / "folds.json", 4, 0, 0);
  EXPECT_EQ(split.train, (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(split.validation, std::vector<int64_t>{2});
  EXPECT_EQ(split.test, std::vector<int64_t>{0});
  EXPECT_FALSE(split.by_node);
  split = read_folds(folder / "folds.json", 4, 1, 1);
  EXPECT_EQ(split.train, std::vector<int64_t>{1});
  EXPECT_EQ(split.test, (std::vector<int64_t>{3, 2}));
}

TEST(Folds, ArePartitions) {
  expect_fold_refused(fold_of("[0, 1]", "[2]", "[1, 3]"),
                      "fold 0, model_selection 0, train: graph 1 is named twice in this fold");
  expect_fold_refused(fold_of("[0]", "[2]", "[3]"), "fold 0: graph 1 of 4 is in none of train, validation and test");
  expect_fold_refused(fold_of("[0, 1]", "[2]", "[4]"), "fold 0, test must hold graphs from 0 to 3, got 4");
  expect_fold_refused(fold_of("[0, 1]", "[-2]", "[3]"),
                      "fold 0, model_selection 0, validation must hold graphs from 0 to 3, got -2");
  expect_fold_refused(fold_of("[0, 1.5]", "[2]", "[3]"),
                      "fold 0, model_selection 0, train must hold graphs from 0 to 3, got 1.5");
  expect_fold_refused(fold_of("[0, 18446744073709551615]", "[2]", "[3]"),
                      "fold 0, model_selection 0, train must hold graphs from 0 to 3, got 18446744073709551615");
}

TEST(Folds, AreRefusedWhereTheFileIsAnother) {
  const std::string good = fold_of("[0, 1]", "[2]", "[3]");
  expect_fold_refused(good, "data.fold must be below 1, the length of the file, got 1", 1);
  expect_fold_refused(good, "data.inner_split must be below 1, the length of fold 0, model_selection, got 2", 0, 2);
  expect_fold_refused("{}", "the file must be a list, got object");
  expect_fold_refused("[1]", "fold 0 must be an object, got number");
  expect_fold_refused("[{}]", "fold 0 has no key \"model_selection\"");
  expect_fold_refused(R"([{"test": 1, "model_selection": [{}]}])", "fold 0, test must be a list, got number");
  expect_fold_refused("[{]", "not JSON: parse error at line 1");
  expect_fold_refused("", "not JSON: parse error");
  expect_fold_refused(good.substr(0, good.size() / 2), "not JSON: parse error");
  expect_fold_refused(std::string(100000, '['), "objects and lists must nest at most 8 deep");
}

TEST(DrawnSplits, HoldOutFractionsOfEachClass) {
  const at::Tensor labels = at::cat({at::zeros({100}, at::kLong), at::ones({20}, at::kLong)});
  const GraphDataOptions options{.split_seed = 3, .validation_fraction = .1, .test_fraction = .25};
  const GraphSplit split = split_by_fraction(labels, options);
  EXPECT_EQ(sizes_of(split, 120), (std::vector<size_t>{78, 12, 30}));
  EXPECT_EQ(std::count_if(split.test.begin(), split.test.end(), [](int64_t i) { return i >= 100; }), 5);
  EXPECT_EQ(split_by_fraction(labels, options).train, split.train);
  EXPECT_NE(split_by_fraction(labels, {.split_seed = 4, .test_fraction = .25}).test, split.test);
}

TEST(DrawnSplits, HoldOneOutWhereEveryFractionIsRoundedToZero) {
  const auto sizes = [](int64_t first, int64_t second, double validation, double test) {
    const at::Tensor labels = at::cat({at::zeros({first}, at::kLong), at::ones({second}, at::kLong)});
    const GraphDataOptions options{.validation_fraction = validation, .test_fraction = test};
    return sizes_of(split_by_fraction(labels, options), static_cast<size_t>(first + second));
  };
  EXPECT_EQ(sizes(4, 0, .1, .1), (std::vector<size_t>{2, 1, 1}));
  EXPECT_EQ(sizes(4, 0, .1, 0), (std::vector<size_t>{3, 1, 0}));
  EXPECT_EQ(sizes(4, 0, 0, .1), (std::vector<size_t>{3, 0, 1}));
  EXPECT_EQ(sizes(1, 3, .1, .1), (std::vector<size_t>{2, 1, 1}));
  EXPECT_EQ(sizes(1, 1, .1, .1), (std::vector<size_t>{2, 0, 0}));  // each class keeps one to train on
  EXPECT_EQ(sizes(0, 0, .1, .1), (std::vector<size_t>{0, 0, 0}));
  EXPECT_EQ(sizes(4, 5, .1, 0), (std::vector<size_t>{8, 1, 0}));  // half a member of the second class is one
}

TEST(DrawnSplits, HaveNumbersPerClass) {
  const at::Tensor labels =
      at::cat({at::zeros({60}, at::kLong), at::ones({55}, at::kLong), at::full({9}, -1, at::kLong)});
  const GraphSplit split = split_by_class({"open_graphs", "x"}, labels, {"a", "b"}, {});
  EXPECT_EQ(sizes_of(split, 115), (std::vector<size_t>{40, 60, 15}));  // nodes without a label are in no part
  EXPECT_EQ(std::count_if(split.train.begin(), split.train.end(), [](int64_t i) { return i < 60; }), 20);
  EXPECT_ERROR(
      split_by_class({"open_graphs", "x"}, labels, {"a", "b"}, {.train_per_class = 28}),
      "open_graphs: x: class b has 55 members, fewer than data.train_per_class + data.validation_per_class = 58");
}

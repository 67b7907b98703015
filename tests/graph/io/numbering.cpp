#include <ATen/ATen.h>

#include "graph/io/helpers.h"

namespace topomask::testing {
namespace {

/// Reads with a callback, which appends the messages that it receives to `told`.
ReadOptions listening(std::vector<std::string>& told, bool one_based = false) {
  return {.one_based = one_based, .warn = [&told](const std::string& text) { told.push_back(text); }};
}

using Numbering = GraphFiles;

TEST_F(Numbering, IdsThatBeginAtOneAreReadAsTheyStandAndNoticed) {
  for (const char* content : {"1 2\n2 3\n", "# Nodes: 3 Edges: 2\n1 2\n2 3\n"}) {
    std::vector<std::string> told;
    const std::string path = put("g.txt", content);
    const Graph graph = read_snap(path, listening(told));
    EXPECT_EQ(graph.num_nodes(), 4);
    EXPECT_EQ(graph.degrees()[0].item<int64_t>(), 0);
    ASSERT_EQ(told.size(), 1) << content;
    EXPECT_EQ(told[0], "read_snap: " + path +
                           ": node ids run from 1 to 3, so that node 0 has no edge; the option one_based reads id 1 as "
                           "node 0");
  }
}

TEST_F(Numbering, TheNoticeGoesToStderrWhereNobodyListens) {
  const std::string path = put("g.txt", "1 2\n");
  ::testing::internal::CaptureStderr();
  read_snap(path);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "read_snap: " + path +
                ": node ids run from 1 to 2, so that node 0 has no edge; the option one_based reads id 1 as node 0\n");
}

TEST_F(Numbering, OtherFilesAreNotNoticed) {
  // A zero; numbers with gaps; a header that counts a node 0, or other nodes than 1 … N.
  for (const char* content : {"0 1\n1 2\n", "5 7\n", "# Nodes: 4\n1 2\n2 3\n", "# Nodes: 2\n1 7\n", "# Nodes: 3\n"}) {
    std::vector<std::string> told;
    read_snap(put("g.txt", content), listening(told));
    EXPECT_TRUE(told.empty()) << content << told[0];
  }
}

TEST_F(Numbering, OneBasedFilesGiveTheSameGraph) {
  std::vector<std::string> told;
  const Graph graph = read_snap(put("a.txt", "0 1\n1 2\n"));
  expect_same(read_snap(put("b.txt", "1 2\n2 3\n"), listening(told, true)), graph);
  expect_same(read_snap(put("c.txt", "# Nodes: 3\n1 2\n2 3\n"), listening(told, true)), graph);
  EXPECT_TRUE(told.empty());
  const std::string path = put("d.txt", "1 2\n0 1\n");
  EXPECT_EQ(error_of([&] { read_snap(path, {.one_based = true}); }),
            "read_snap: " + path + ":2: a node id must be >= 1 in a file that is read as one_based, got 0");
}

TEST_F(Numbering, WrittenFilesAreReadWithoutANotice) {
  const Graph graph = Graph::from_edges(4, at::tensor({1, 2}, at::kLong), at::tensor({2, 3}, at::kLong));
  std::vector<std::string> told;
  write_snap(graph, at("g.txt"));
  expect_same(read_snap(at("g.txt"), listening(told)), graph);
  write_npz(graph, at("g.npz"));
  expect_same(read_npz(at("g.npz"), listening(told)), graph);
  EXPECT_TRUE(told.empty());
}

TEST_F(Numbering, ArchivesCanBeOneBasedToo) {
  const Graph graph = Graph::path(3);
  write_npz(graph, at("g.npz"));
  EXPECT_EQ(error_of([&] { read_npz(at("g.npz"), {.one_based = true}); }),
            "read_npz: " + at("g.npz") + ": array \"src\": node id must be in 1 … 3, got 0 at index 0");
  const at::Tensor from = at::tensor({1, 2}, at::kLong), to = at::tensor({2, 3}, at::kLong);
  write_npz(Graph::from_edges(4, from, to), at("h.npz"));
  expect_same(read_npz(at("h.npz"), {.one_based = true}), Graph::from_edges(4, from - 1, to - 1));
}

using ReaderOptions = GraphFiles;

TEST_F(ReaderOptions, AreInRange) {
  const std::string path = put("g.txt", "0 1\n");
  EXPECT_EQ(error_of([&] { read_snap(path, {.limits = {.max_nodes = -1}}); }),
            "read_snap: " + path + ": limits.max_nodes must be >= 0, got -1");
  EXPECT_EQ(error_of([&] { read_graph(path, {.limits = {.max_edges = -2}}); }),
            "read_snap: " + path + ": limits.max_edges must be >= 0, got -2");
  EXPECT_EQ(error_of([&] { read_metis(path, {.limits = {.max_isolated = -3}}); }),
            "read_metis: " + path + ": limits.max_isolated must be >= 0, got -3");
  EXPECT_EQ(error_of([&] { read_matrix_market(path, {.weight_dtype = at::kLong}); }),
            "read_matrix_market: " + path + ": weight_dtype must be Float or Double, got Long");
  EXPECT_EQ(error_of([&] { read_npz(path, {.weight_dtype = at::kHalf}); }),
            "read_npz: " + path + ": weight_dtype must be Float or Double, got Half");
}

using SymmetricFiles = GraphFiles;

const std::string kSymmetric = "%%MatrixMarket matrix coordinate real symmetric\n";

TEST_F(SymmetricFiles, RefuseTwoValuesForOnePair) {
  const auto expect = [&](const std::string& entries, Duplicates duplicates, const std::string& error) {
    const std::string path = put("g.mtx", kSymmetric + entries);
    EXPECT_EQ(error_of([&] { read_matrix_market(path, {.duplicates = duplicates}); }),
              error == "no error" ? error : "read_matrix_market: " + path + error);
  };
  const std::string both = "3 3 3\n2 1 5\n% a comment\n\n1 2 7\n3 1 1\n";
  const std::string says =
      ":6: the value of (1, 2) is 7, but 5 for (2, 1) on line 3; a symmetric file has one value for a pair";
  for (const Duplicates duplicates : {Duplicates::first, Duplicates::sum, Duplicates::refuse}) {
    expect(both, duplicates, says);
  }
  const std::string twice = "3 3 3\n2 1 5\n2 1 7\n3 1 1\n";
  expect(twice, Duplicates::first,
         ":4: the value of (2, 1) is 7, but 5 for (2, 1) on line 3; a symmetric file has one value for a pair");
  expect(twice, Duplicates::sum, "no error");
  expect("3 3 3\n2 1 5\n1 2 5\n3 1 1\n", Duplicates::first, "no error");
  expect("3 3 3\n3 1 5\n2 1 5\n2 2 5\n", Duplicates::first, "no error");
}

TEST_F(SymmetricFiles, InAnyOrderGiveTheSameGraph) {
  const std::string by_rows = put("a.mtx", kSymmetric + "3 3 3\n2 1 5\n3 1 6\n3 2 7\n");
  const std::string mixed = put("b.mtx", kSymmetric + "3 3 3\n3 2 7\n1 3 6\n2 1 5\n");
  expect_same(read_matrix_market(mixed), read_matrix_market(by_rows));
}

}  // namespace
}  // namespace topomask::testing

#include <ATen/ATen.h>

#include <limits>

#include "graph/io/helpers.h"

namespace topomask::testing {
namespace {

using ReadSnap = GraphFiles;
using ReadMetis = GraphFiles;
using ReadMatrixMarket = GraphFiles;
using ReadNpz = GraphFiles;
using Readers = GraphFiles;

struct Malformed {
  std::string content;
  std::string error;  ///< what follows the name of the file
};

const std::string kBanner = "%%MatrixMarket matrix coordinate ";
const std::string kTooLong(600, '7');

TEST_F(ReadSnap, NamesTheLineOfWhatIsWrong) {
  const std::vector<Malformed> cases = {
      {"", ": the file is empty"},
      {"\n \r\n", ": the file is empty"},
      {"0 1\nabc 2\n", ":2: expected a node id, got \"abc\""},
      {"0 1\n\n# x\n1 abc\n", ":4: expected a target node id, got \"abc\""},
      {"0 1\n2\n", ":2: expected a target node id, got the end of the line"},
      {"0 1\n2", ":2: expected a target node id, got the end of the file"},
      {"-1 2\n", ":1: expected a node id, got \"-1\""},
      {"1.5 2\n", ":1: expected a node id, got \"1.5\""},
      {"0 99999999999999999999\n", ":1: expected a target node id of at most 18 digits, got \"99999999999999999999\""},
      {"0 99999999999\n",
       ":1: node id 99999999999: 100000000000 nodes are more than the 2147483647 that limits.max_nodes allows"},
      {"0 2147483647\n",
       ":1: node id 2147483647: 2147483648 nodes are more than the 2147483647 that limits.max_nodes allows"},
      {"0 2000000000\n",
       ": 2000000001 nodes for 1 edges: at least 1999999999 without an edge, more than the 16777216 that "
       "limits.max_isolated allows"},
      {"# Nodes: 99999999999999999999999\n", ":1: the number of nodes 99999999999999999999999 is out of range"},
      {"# Nodes: 1000000000000000\n0 1\n",
       ":1: 1000000000000000 nodes are more than the 2147483647 that limits.max_nodes allows"},
      {"0 1\n# Nodes: 10^15\n", ":2: expected a number of nodes after \"Nodes:\", got \"10^15\""},
      {"# Nodes: 1e6 Edges: 3\n0 1\n", ":1: expected a number of nodes after \"Nodes:\", got \"1e6\""},
      {"# Nodes: 1,965,206\n0 1\n", ":1: expected a number of nodes after \"Nodes:\", got \"1,965,206\""},
      {"# Nodes: -5\n0 1\n", ":1: expected a number of nodes after \"Nodes:\", got \"-5\""},
      {"# Nodes: 2000000000\n0 1\n", ": 2000000000 nodes for 1 edges"},
      {"0 1 2 3\n", ":1: expected the end of the line, got \"3\""},
      {"0 1\n1 2 0.5\n", ":2: expected the end of the line, got \"0.5\""},
      {"0 1 1\n1 2\n", ":2: expected a weight, as on the lines before, got the end of the line"},
      {"0 1 x\n", ":1: expected a weight, got \"x\""},
      {"0 1 nan\n", ":1: expected a weight that is finite, got \"nan\""},
      {"0 1 -inf\n", ":1: expected a weight that is finite, got \"-inf\""},
      {"0 1 1e39\n", ":1: expected a weight in the range of Float, got \"1e39\""},
      {"0 1 1e999\n", ":1: expected a weight in the range of Float, got \"1e999\""},
      {"0 1 +-1\n", ":1: expected a weight, got \"+-1\""},
      {std::string("0 1\0\n", 5), ":1: expected a target node id, got \"1?\""},
      {"0 " + kTooLong + "\n",
       ":1: expected a target node id of at most 18 digits, got \"7777777777777777777777777777777777777777…\""},
      {"0 1 " + kTooLong + "\n", ":1: expected a weight, got \"7777"},
  };
  for (const Malformed& c : cases) {
    const std::string path = put("g.txt", c.content);
    const std::string error = error_of([&] { read_snap(path); });
    EXPECT_NE(error.find(c.error), std::string::npos) << c.content << "\n" << error;
    EXPECT_EQ(error.find("read_snap: " + path), 0u) << error;
  }
}

TEST_F(ReadSnap, TakesAnyLayout) {
  for (const char* text :
       {"0 1\n1 2\n", "0\t1\r\n1\t2\r\n", "\n\n  0   1  \n# note\n\n1 2", "#\n0 1 \t\n1 2\t\n \n", "0 1 1\n1 2 +1.0\n",
        "# Nodes: 2\n# Nodes: many\n0 1\n2 1\n1 0", "% sym unweighted\n% 2 3 3\n0 1\n  % note\n1 2\n"}) {
    SCOPED_TRACE(text);
    expect_same(read_snap(put("g.txt", text)), Graph::path(3));
    expect_same(read_snap(put("g.txt", gzipped(text))), Graph::path(3));
  }
  EXPECT_EQ(read_snap(put("g.txt", "# Nodes: 9 Edges: 1\n0 1\n")).num_nodes(), 9);
  EXPECT_EQ(read_snap(put("g.txt", "# nothing\n")).num_nodes(), 0);
}

TEST_F(ReadSnap, RoundsTinyWeightsTowardsZero) {
  EXPECT_EQ(read_snap(put("g.txt", "0 1 1e-60\n")).weights()[0].item<float>(), 0.0f);
}

TEST_F(ReadSnap, HoldsToItsLimits) {
  const std::string path = put("g.txt", "0 1\n1 2\n2 3\n");
  EXPECT_EQ(read_snap(path, {.limits = {.max_nodes = 5, .max_edges = 3}}).num_nodes(), 4);
  EXPECT_NE(error_of([&] { read_snap(path, {.limits = {.max_nodes = 4}}); }).find(":3: node id 3"), std::string::npos);
  EXPECT_NE(error_of([&] {
              read_snap(path, {.limits = {.max_edges = 2}});
            }).find(":3: 3 edges are more than the 2 that limits.max_edges allows"),
            std::string::npos);
}

TEST_F(ReadMetis, NamesTheLineOfWhatIsWrong) {
  const std::vector<Malformed> cases = {
      {"", ":1: expected a header `N E [fmt [ncon]]`, got the end of the file"},
      {"% only a comment\n", ":2: expected a header"},
      {"3\n", ":1: expected a number of edges, got the end of the line"},
      {"x 2\n", ":1: expected a number of nodes, got \"x\""},
      {"-3 2\n", ":1: expected a number of nodes, got \"-3\""},
      {"99999999999 1\n", ":1: 99999999999 nodes are more than the 2147483647"},
      {"99999999999999999999 1\n", ":1: expected a number of nodes of at most 18 digits"},
      {"3 99999999999\n", ":1: 99999999999 edges are more than the 8589934592"},
      {"2000000000 2\n2\n1 3\n2\n", ":1: the file is too small for the 2000000000 nodes and 2 edges of its header"},
      {"3 1000\n2\n1 3\n2\n", ":1: the file is too small"},
      {"3 2 2\n2\n1 3\n2\n", ":1: expected a format of up to three digits 0 or 1, got \"2\""},
      {"3 2 0001\n2\n1 3\n2\n", ":1: expected a format"},
      {"3 2 1 1\n2\n1 3\n2\n", ":1: format 001 and 1 weights per node contradict each other"},
      {"3 2 10 0\n2\n1 3\n2\n", ":1: format 010 and 0 weights per node contradict each other"},
      {"3 2 11 1 5\n2\n1 3\n2\n", ":1: expected the end of the line, got \"5\""},
      {"3 2\n2\n1 4\n2\n", ":3: neighbour 4 is outside 1 … 3"},
      {"3 2\n2\n1 0\n2\n", ":3: neighbour 0 is outside 1 … 3"},
      {"3 2\n2\n1 x\n2\n", ":3: expected a neighbour, got \"x\""},
      {"3 2\n2\n1 2\n2\n", ":3: node 2 is its own neighbour"},
      {"% a\n3 2\n% b\n2\n%c\n1\n\n", ":2: the header promises 2 edges, hence 4 neighbours; the rows hold 2"},
      {"3 2\n2 3\n1 3\n2\n", ":4: more neighbours than the 2 edges of the header have ends"},
      {"3 2\n2 3\n1\n2\n", ":2: the edge to 3 is not in the row of 3 (line 4)"},
      {"3 2\n2\n3 1\n1\n", ":4: the edge to 1 is not in the row of 1 (line 2)"},
      {"3 1\n2\n\n1\n", ":2: the edge to 2 is not in the row of 2 (line 3)"},
      {"3 1\n\n1\n2\n", ":3: the edge to 1 is not in the row of 1 (line 2)"},
      {"4 2\n2\n1 3\n", ":4: the file ends after 2 of 4 rows"},
      {"3 2\n2\n1 3\n2\n\n7\n", ":6: expected the end of the file after 3 rows, got \"7\""},
      {"2 1 1\n2 5\n1 6\n", ":2: the edge to 2 has weight 5 here and 6 on line 3"},
      {"2 1 1\n2\n1 6\n", ":2: expected an edge weight, got the end of the line"},
      {"2 1 1\n2 0\n1 0\n", ":2: an edge weight must be a positive integer, got 0"},
      {"2 1 1\n2 0.5\n1 0.5\n", ":2: expected an edge weight, got \"0.5\""},
      {"2 1 10\n\n4 1\n", ":2: expected a node weight or size, got the end of the line"},
  };
  for (const Malformed& c : cases) {
    const std::string path = put("g.graph", c.content);
    const std::string error = error_of([&] { read_metis(path); });
    EXPECT_NE(error.find(path + c.error), std::string::npos) << c.content << "\n" << error;
    EXPECT_EQ(error.find("read_metis: "), 0u);
  }
}

TEST_F(ReadMetis, TakesEveryFormatAndLayout) {
  for (const char* text : {"3 2\n2\n1 3\n2\n", "% c\n\n3 2 0\r\n2\r\n%c\r\n3 1\r\n2", " 3 2\n 2 \n 1\t3 \n 2 \n\n \n",
                           "3 2 1\n2 1\n1 1 3 1\n2 1\n", "3 2 10\n7 2\n7 1 3\n7 2\n",
                           "3 2 110\n5 7 2\n5 7 1 3\n5 7 2\n", "3 2 111 2\n5 7 8 2 1\n5 7 8 3 1 1 1\n5 7 8 2 1\n"}) {
    SCOPED_TRACE(text);
    expect_same(read_metis(put("g.graph", text)), Graph::path(3));
    expect_same(read_metis(put("g.graph", gzipped(text))), Graph::path(3));
  }
  EXPECT_EQ(read_metis(put("g.graph", "3 0\n\n\n\n")).num_edges(), 0);
  EXPECT_EQ(read_metis(put("g.graph", "0 0\n")).num_nodes(), 0);
}

TEST_F(ReadMetis, TreatsAnEdgeListedTwiceAsADuplicate) {
  const std::string path = put("g.graph", "2 2 1\n2 3 2 4\n1 4 1 3\n");
  EXPECT_EQ(read_metis(path, {.duplicates = Duplicates::sum}).weights()[0].item<float>(), 7.0f);
  EXPECT_EQ(read_metis(path).num_edges(), 1);
  EXPECT_EQ(error_of([&] { read_metis(path, {.duplicates = Duplicates::refuse}); }).find("read_metis: " + path + ": "),
            0u);
}

TEST_F(ReadMatrixMarket, NamesTheLineOfWhatIsWrong) {
  const std::string general = kBanner + "real general\n";
  const std::vector<Malformed> cases = {
      {"", ":1: expected the banner %%MatrixMarket, got the end of the file"},
      {"3 3 1\n1 2 1\n", ":1: expected the banner %%MatrixMarket on the first line"},
      {"%%MatrixMarket vector coordinate real general\n", ":1: the object must be matrix, got \"vector\""},
      {"%%MatrixMarket matrix array real general\n", ":1: the format must be coordinate, got \"array\""},
      {kBanner + "complex general\n", ":1: the field must be real, integer, pattern, got \"complex\""},
      {kBanner + "real skew-symmetric\n", ":1: the symmetry must be general, symmetric, got \"skew-symmetric\""},
      {kBanner + "real Hermitian\n", ":1: the symmetry must be general, symmetric, got \"hermitian\""},
      {kBanner + "real\n", ":1: expected the symmetry, got the end of the line"},
      {kBanner + "real general x\n", ":1: expected the end of the line, got \"x\""},
      {general, ":2: expected the size line `rows columns entries`, got the end of the file"},
      {general + "% c\n3 3\n", ":3: expected a number of entries, got the end of the line"},
      {general + "3 4 0\n", ":2: a graph needs a square matrix, got 3 rows and 4 columns"},
      {general + "99999999999 99999999999 0\n", ":2: 99999999999 nodes are more than"},
      {general + "3 3 99999999999\n", ":2: 99999999999 edges are more than"},
      {general + "3 3 99999999999999999999\n", ":2: expected a number of entries of at most 18 digits"},
      {general + "3 3 1000000\n1 2 1\n", ":2: the file is too small for the 1000000 entries of its header"},
      {general + "2000000000 2000000000 1\n1 2 1\n", ": 2000000000 nodes for 1 edges"},
      {general + "3 3 2\n1 2 1\n", ":4: the file ends after 1 of 2 entries"},
      {general + "3 3 1\n1 2 1\n\n2 3 1\n", ":5: expected the end of the file after 1 entries, got \"2\""},
      {general + "3 3 1\n0 2 1\n", ":3: a row index must be in 1 … 3, got 0"},
      {general + "3 3 1\n1 4 1\n", ":3: a column index must be in 1 … 3, got 4"},
      {general + "3 3 1\n1 -2 1\n", ":3: expected a column index, got \"-2\""},
      {general + "3 3 1\n1 2\n", ":3: expected a value, got the end of the line"},
      {general + "3 3 1\n1 2 1 0\n", ":3: expected the end of the line, got \"0\""},
      {general + "3 3 1\n1 2 nan\n", ":3: expected a value that is finite, got \"nan\""},
      {kBanner + "integer general\n3 3 1\n1 2 1.5\n", ":3: an integer matrix holds the value 1.5"},
      {kBanner + "pattern general\n3 3 1\n1 2 1\n", ":3: expected the end of the line, got \"1\""},
  };
  for (const Malformed& c : cases) {
    const std::string path = put("g.mtx", c.content);
    const std::string error = error_of([&] { read_matrix_market(path); });
    EXPECT_NE(error.find(path + c.error), std::string::npos) << c.content << "\n" << error;
    EXPECT_EQ(error.find("read_matrix_market: "), 0u);
  }
}

TEST_F(ReadMatrixMarket, TakesBothTrianglesAndAnyLayout) {
  for (const char* text : {"%%matrixmarket MATRIX Coordinate PATTERN Symmetric\r\n%\r\n\r\n3 3 2\r\n2 1\r\n2 3",
                           "%%MatrixMarket matrix coordinate integer symmetric\n3 3 2\n% c\n\n1 2 1\n3 2 1 \n\n",
                           "%%MatrixMarket matrix coordinate real symmetric\n3 3 2\n2 1 1.0e0\n3 2 10E-1\n"}) {
    SCOPED_TRACE(text);
    expect_same(read_matrix_market(put("g.mtx", text)), Graph::path(3));
  }
  const Graph directed = read_matrix_market(put("g.mtx", kBanner + "real general\n2 2 1\n1 2 0.5\n"));
  EXPECT_TRUE(directed.directed());
  EXPECT_EQ(directed.columns()[0].item<int>(), 1);
}

std::string plain_zip(const std::string& src, const std::string& dst) {
  return zip_of({{.name = "src.npy", .bytes = src}, {.name = "dst.npy", .bytes = dst}});
}

TEST_F(ReadNpz, NamesTheArrayOfWhatIsWrong) {
  const std::string ids = npy<int32_t>("<i4", {0, 1});
  const auto with = [&](const std::string& name, const std::string& bytes) {
    return zip_of(
        {{.name = "src.npy", .bytes = ids}, {.name = "dst.npy", .bytes = ids}, {.name = name, .bytes = bytes}});
  };
  const auto member = [&](Member m) { return zip_of({m, {.name = "dst.npy", .bytes = ids}}); };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Malformed> cases = {
      {"", ": the file is empty"},
      {"0 1\n", ": not a zip archive, or cut short"},
      {zip_of({{.name = "dst.npy", .bytes = ids}}), ": no array \"src\" in the archive"},
      {zip_of({{.name = "src.npy", .bytes = ids}}), ": no array \"dst\" in the archive"},
      {plain_zip("abc", ids), ": array \"src\": not a .npy array"},
      {plain_zip("not numpy at all", ids), ": array \"src\": not a .npy array"},
      {plain_zip(npy<int32_t>("<i4", {0, 1}, "", 9), ids), ": array \"src\": .npy version 9; versions 1 to 3 are read"},
      {plain_zip(npy<int32_t>(">i4", {0, 1}), ids),
       ": array \"src\": dtype must be bool, a little-endian integer, float16, float32 or float64, got '>i4'"},
      {plain_zip(npy<int32_t>("<c8", {0, 1}), ids), ": array \"src\": dtype must be"},
      {plain_zip(npy<int32_t>("<U16", {0, 1}), ids), ": array \"src\": the .npy header has no simple 'descr'"},
      {plain_zip(npy<float>("<f4", {0, 1}), ids), ": array \"src\": must hold integers, got f4[2]"},
      {plain_zip(npy<int32_t>("<i4", {0, 1}, "(2, 1)"), ids), ": array \"src\": must have shape [E], got i4[2, 1]"},
      {plain_zip(npy<int32_t>("<i4", {0}, "()"), ids), ": array \"src\": must have shape [E], got i4[]"},
      {plain_zip(npy<int32_t>("<i4", {0, 1}, "(-2,)"), ids), ": array \"src\": the .npy header has no valid 'shape'"},
      {plain_zip(npy<int32_t>("<i4", {0, 1}, "2"), ids), ": array \"src\": the .npy header has no 'shape'"},
      {plain_zip(npy<int32_t>("<i4", {0, 1}, "(2"), ids), ": array \"src\": the .npy header has no valid 'shape'"},
      {plain_zip(npy<int32_t>("<i4", {0, 1}, "(99999999999999999999,)"), ids),
       ": array \"src\": the shape is out of range"},
      {plain_zip(npy<int32_t>("<i4", {0, 1}, "(999999999999999999,)"), ids),
       ": array \"src\": i4[999999999999999999] needs 3999999999999999996 bytes, the member holds 8"},
      {plain_zip(npy<int32_t>("<i4", {0, 1}, "(9999999999999, 9999999999999)"), ids), "9999999999999] overflows"},
      {plain_zip(npy<int32_t>("<i4", {0, 1}, "(1,)"), ids), ": array \"src\": i4[1] needs 4 bytes, the member holds 8"},
      {plain_zip(npy<int32_t>("<i4", {0, -5}), ids),
       ": array \"src\": node id must be in 0 … 2147483646, got -5 at index 1"},
      {plain_zip(npy<uint64_t>("<u8", {0, ~uint64_t{0}}), ids), ": array \"src\": node id must be in 0"},
      {plain_zip(npy<int64_t>("<i8", {0, 2147483647}), ids), ", got 2147483647 at index 1"},
      {plain_zip(ids, npy<int32_t>("<i4", {0, 2000000000})), ": 2000000001 nodes for 2 edges"},
      {plain_zip(ids, npy<int32_t>("<i4", {0})), ": src and dst must have the same length, got 2 and 1"},
      {with("num_nodes.npy", npy<int64_t>("<i8", {1}, "()")),
       ": array \"src\": node id must be in 0 … 0, got 1 at index 1"},
      {with("num_nodes.npy", npy<int64_t>("<i8", {-1}, "()")), ": array \"num_nodes\": must not be negative, got -1"},
      {with("num_nodes.npy", npy<int64_t>("<i8", {3, 4})),
       ": array \"num_nodes\": must be an integer scalar, got i8[2]"},
      {with("num_nodes.npy", npy<int64_t>("<i8", {int64_t{1} << 40}, "()")),
       ": array \"num_nodes\": 1099511627776 nodes are more"},
      {with("num_nodes.npy", npy<int64_t>("<i8", {2000000000}, "()")), ": 2000000000 nodes for 2 edges"},
      {with("weight.npy", npy<float>("<f4", {1})), ": array \"weight\": must have one weight per edge, 2, got 1"},
      {with("weight.npy", npy<int32_t>("<i4", {1, 1})),
       ": array \"weight\": must be float16, float32 or float64, got i4[2]"},
      {with("weight.npy", npy<double>("<f8", {1, nan})), ": array \"weight\": must be finite, got nan at index 1"},
      {member({.name = "src.npy", .bytes = ids, .method = 12}),
       ": src.npy: compression method 12; only stored (0) and deflated (8) are read"},
      {member({.name = "src.npy", .bytes = ids, .flags = 1}), ": src.npy: the member is encrypted"},
      {member({.name = "src.npy", .bytes = ids, .wrong_checksum = true}),
       ": src.npy: checksum error, the data is damaged"},
      {member({.name = "src.npy", .bytes = ids, .claimed_bytes = 9}),
       ": src.npy: a stored member has two different sizes"},
      {member({.name = "src.npy", .bytes = ids, .claimed_bytes = 4000000000}),
       ": src.npy: 4000000000 bytes cannot come from "},
      {member({.name = "src.npy",
               .bytes = npy<int32_t>("<i4", {0, 1}, "(3,)"),
               .deflate = true,
               .claimed_bytes = static_cast<int64_t>(ids.size()) + 4}),
       ": src.npy: the compressed data is damaged or cut short"},
  };
  for (const Malformed& c : cases) {
    const std::string path = put("g.npz", c.content);
    const std::string error = error_of([&] { read_npz(path); });
    EXPECT_NE(error.find(c.error), std::string::npos) << c.error << "\n" << error;
    EXPECT_EQ(error.find("read_npz: " + path + ": "), 0u) << error;
  }
}

TEST_F(ReadNpz, TakesStoredAndDeflatedMembersOfEveryIntegerType) {
  const auto expect_path = [&](const std::string& src, const std::string& dst) {
    for (const bool deflate : {false, true}) {
      for (const bool descriptor : {false, true}) {
        put("g.npz", zip_of({{.name = "y.npy", .bytes = "ignored"},
                             {.name = "src.npy", .bytes = src, .deflate = deflate, .descriptor = descriptor},
                             {.name = "dst.npy", .bytes = dst, .deflate = deflate, .descriptor = descriptor}}));
        expect_same(read_npz(at("g.npz")), Graph::path(3));
      }
    }
  };
  expect_path(npy<int64_t>("<i8", {0, 1}), npy<uint64_t>("<u8", {1, 2}));
  expect_path(npy<int32_t>("<i4", {0, 1}), npy<uint32_t>("<u4", {1, 2}));
  expect_path(npy<int16_t>("<i2", {0, 1}), npy<uint16_t>("<u2", {1, 2}));
  expect_path(npy<int8_t>("|i1", {0, 1}), npy<uint8_t>("|u1", {1, 2}));
  expect_path(npy<int32_t>("<i4", {0, 1}, "", 2), npy<int32_t>("<i4", {1, 2}, "(2)", 3));
}

TEST_F(ReadNpz, HoldsToItsLimits) {
  const std::string path = put("g.npz", plain_zip(npy<int32_t>("<i4", {0, 1}), npy<int32_t>("<i4", {1, 2})));
  EXPECT_NE(error_of([&] {
              read_npz(path, {.limits = {.max_edges = 1}});
            }).find("array \"src\": 2 edges are more than the 1"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              read_npz(path, {.limits = {.max_nodes = 3}});
            }).find("node id must be in 0 … 1, got 2 at index 1"),
            std::string::npos);
}

TEST_F(Readers, RefuseMissingFilesAndFolders) {
  const auto readers = {&read_snap, &read_metis, &read_matrix_market, &read_npz};
  for (const auto& read : readers) {
    EXPECT_NE(error_of([&] {
                read(at("missing.txt"), {});
              }).find("missing.txt: cannot open the file: No such file or directory"),
              std::string::npos);
    EXPECT_NE(error_of([&] { read(folder_.string(), {}); }).find(": expected a file, got a directory"),
              std::string::npos);
  }
}

TEST_F(Readers, RefuseDamagedGzip) {
  std::string bytes = gzipped("0 1\n1 2\n");
  EXPECT_NE(error_of([&] {
              read_snap(put("g.txt.gz", bytes + "0 1\n"));
            }).find("g.txt.gz: the gzip stream is followed by bytes that are not gzip"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              read_snap(put("g.txt.gz", bytes.substr(0, bytes.size() - 1)));
            }).find("g.txt.gz: the gzip stream is cut short"),
            std::string::npos);
  bytes[bytes.size() - 6] ^= 1;
  EXPECT_NE(error_of([&] { read_snap(put("g.txt.gz", bytes)); }).find("g.txt.gz: the gzip stream is corrupt: "),
            std::string::npos);
}

TEST_F(Readers, TakeSeveralGzipStreamsInARowAndZeroPadding) {
  put("g.txt.gz", gzipped("0 1\n1") + gzipped(" 2\n") + std::string(300, '\0'));
  expect_same(read_snap(at("g.txt.gz")), Graph::path(3));
}

}  // namespace
}  // namespace topomask::testing

#include <ATen/ATen.h>

#include <cmath>
#include <map>

#include "graph/io/helpers.h"

namespace topomask::testing {
namespace {

using NpzMatrix = GraphFiles;
using Arrays = std::map<std::string, std::string>;

std::string text_array(const std::string& text) {
  return npy_text(c10::str("{'descr': '|S", text.size(), "', 'fortran_order': False, 'shape': (), }"), text);
}

/// Entries (0, 1) = 0.5, (1, 2) = 2, (2, 0) = 3 and (2, 2) = 4, as scipy.sparse.save_npz writes them.
Arrays matrix_arrays(const std::string& format) {
  Arrays arrays{{"format", text_array(format)}, {"shape", npy<int64_t>("<i8", {3, 3})}};
  if (format == "csr") {
    arrays["indptr"] = npy<int32_t>("<i4", {0, 1, 2, 4});
    arrays["indices"] = npy<int32_t>("<i4", {1, 2, 0, 2});
    arrays["data"] = npy<float>("<f4", {0.5F, 2, 3, 4});
    return arrays;
  }
  arrays["data"] = npy<float>("<f4", {3, 0.5F, 2, 4});  // by columns
  if (format == "csc") {
    arrays["indptr"] = npy<int64_t>("<i8", {0, 1, 2, 4});
    arrays["indices"] = npy<int64_t>("<i8", {2, 0, 1, 2});
  } else {
    arrays["row"] = npy<int32_t>("<i4", {2, 0, 1, 2});
    arrays["col"] = npy<int32_t>("<i4", {0, 1, 2, 2});
    arrays["_is_array"] = npy<uint8_t>("|b1", {1}, "()");
  }
  return arrays;
}

std::string archive_of(const Arrays& arrays, bool deflate = false) {
  std::vector<Member> members;
  for (const auto& [name, bytes] : arrays)
    members.push_back({.name = name + ".npy", .bytes = bytes, .deflate = deflate});
  return zip_of(members);
}

Arrays with(Arrays arrays, const std::string& name, const std::string& bytes) {
  arrays[name] = bytes;
  return arrays;
}

TEST_F(NpzMatrix, IsTheGraphOfAGeneralMatrixMarketFile) {
  const Graph expected = read_matrix_market(
      put("g.mtx", "%%MatrixMarket matrix coordinate real general\n3 3 4\n1 2 0.5\n2 3 2\n3 1 3\n3 3 4\n"));
  EXPECT_TRUE(expected.directed());
  for (const char* format : {"csr", "csc", "coo"}) {
    for (const bool deflate : {false, true}) {
      SCOPED_TRACE(format);
      const std::string path = put("g.npz", archive_of(matrix_arrays(format), deflate));
      expect_same(read_npz(path), expected);
      expect_same(read_graph(path, {.one_based = true}), expected);  // matrices are numbered from 0
    }
  }
}

TEST_F(NpzMatrix, HasValuesOfAnyType) {
  const auto read = [&](const std::string& data, at::ScalarType weight_dtype = at::kFloat) {
    return read_npz(put("g.npz", archive_of(with(matrix_arrays("csr"), "data", data))), {.weight_dtype = weight_dtype})
        .weights();
  };
  const at::Tensor counted = at::tensor({1, 2, 3, 4});
  EXPECT_TRUE(read(npy<double>("<f8", {1, 2, 3, 4})).equal(counted.to(at::kDouble)));
  EXPECT_TRUE(read(npy<c10::Half>("<f2", {1.F, 2.F, 3.F, 4.F})).equal(counted.to(at::kFloat)));
  EXPECT_TRUE(read(npy<int8_t>("|i1", {1, 2, 3, 4})).equal(counted.to(at::kFloat)));
  EXPECT_TRUE(read(npy<uint64_t>("<u8", {1, 2, 3, 4}), at::kDouble).equal(counted.to(at::kDouble)));
  EXPECT_TRUE(read(npy<uint8_t>("|b1", {1, 1, 1, 1})).equal(at::ones({4})));
}

TEST_F(NpzMatrix, MayBeEmpty) {
  for (const int64_t nodes : {0, 5}) {
    Arrays arrays{{"format", text_array("csr")}, {"shape", npy<int64_t>("<i8", {nodes, nodes})}};
    arrays["indptr"] = npy("<i8", std::vector<int64_t>(static_cast<size_t>(nodes) + 1));
    arrays["indices"] = npy<int32_t>("<i4", {});
    arrays["data"] = npy<float>("<f4", {});
    const Graph graph = read_npz(put("g.npz", archive_of(arrays)));
    EXPECT_EQ(graph.num_nodes(), nodes);
    EXPECT_EQ(graph.num_edges(), 0);
  }
}

TEST_F(NpzMatrix, NamesTheArrayOfWhatIsWrong) {
  const auto expect = [&](const Arrays& arrays, const std::string& fault, const ReadOptions& options = {}) {
    const std::string path = put("g.npz", archive_of(arrays));
    const std::string error = error_of([&] { read_npz(path, options); });
    EXPECT_EQ(error.find("read_npz: " + path + ": " + fault), 0U) << error;
  };
  const Arrays csr = matrix_arrays("csr"), coo = matrix_arrays("coo");
  const auto indptr = [&](const std::vector<int64_t>& values) { return with(csr, "indptr", npy("<i8", values)); };
  expect(with(csr, "format", text_array("bsr")), "array \"format\": must be csr, csc or coo, got \"bsr\"");
  expect(with(csr, "format", npy<int32_t>("<i4", {1}, "()")), "array \"format\": must be a text, got i4[]");
  expect(with(csr, "format", npy<int32_t>("<i4", {1})), "array \"format\": must have no dimension, got i4[1]");
  expect(with(csr, "shape", npy<int64_t>("<i8", {3, 4})),
         "array \"shape\": a graph needs a square matrix, got 3 rows and 4 columns");
  expect(with(csr, "shape", npy<int64_t>("<i8", {3})), "array \"shape\": must have two values, got i8[1]");
  expect(with(csr, "shape", npy<int64_t>("<i8", {-3, -3})), "array \"shape\": must not be negative, got -3");
  expect(with(csr, "shape", npy<double>("<f8", {3, 3})), "array \"shape\": must hold integers, got f8[2]");
  expect(with(csr, "shape", npy<int64_t>("<i8", {int64_t{1} << 40, int64_t{1} << 40})),
         "array \"shape\": 1099511627776 nodes are more than the 2147483647 that limits.max_nodes allows");
  expect(with(coo, "shape", npy<int64_t>("<i8", {2000000000, 2000000000})), "2000000000 nodes for 4 edges");
  expect(indptr({0, 1, 2}), "array \"indptr\": must have 4 values, one more than rows, got 3");
  for (const std::vector<int64_t>& values :
       std::vector<std::vector<int64_t>>{{1, 1, 2, 4}, {0, 2, 1, 4}, {0, 1, 2, 3}, {0, 1, 2, 5}, {-1, 1, 2, 4}}) {
    expect(indptr(values), "array \"indptr\": must ascend from 0 to 4, the length of indices, got ");
  }
  expect(with(csr, "indices", npy<int32_t>("<i4", {1, 2, 0, 3})),
         "array \"indices\": must be from 0 to 2, got 3 at index 3");
  expect(with(csr, "indices", npy<int32_t>("<i4", {1, -2, 0, 2})),
         "array \"indices\": must be from 0 to 2, got -2 at index 1");
  expect(with(csr, "data", npy<float>("<f4", {1, 2})), "array \"data\": must have one value per entry, 4, got 2");
  expect(with(csr, "data", npy<float>("<f4", {1, 2, 3, NAN})), "array \"data\": must be finite, got nan at index 3");
  expect(with(csr, "data", npy<uint64_t>("<u8", {1, 2, 3, ~uint64_t{0}})), "array \"data\": must be below 2^63");
  expect(with(csr, "data", npy<double>("<c8", {1, 2, 3, 4})), "array \"data\": dtype must be bool, a little-endian");
  expect(with(csr, "data", npy<uint32_t>("|S4", {1, 2, 3, 4})), "array \"data\": must hold numbers, got S4[4]");
  expect(with(coo, "row", npy<int32_t>("<i4", {1, 2})), "row and col must have the same length, got 2 and 4");
  expect(coo, "array \"row\": 4 edges are more than the 3 that limits.max_edges allows", {.limits = {.max_edges = 3}});
  Arrays none = csr;
  none.erase("indptr");
  expect(none, "no array \"indptr\" in the archive");
  const std::string whole = archive_of(csr), path = put("g.npz", whole.substr(0, whole.size() / 2));
  EXPECT_EQ(error_of([&] { read_npz(path); }), "read_npz: " + path + ": not a zip archive, or cut short");
}

TEST_F(NpzMatrix, GivesWayToAnEdgeList) {
  Arrays arrays = matrix_arrays("csr");
  arrays["src"] = npy<int32_t>("<i4", {0, 1});
  arrays["dst"] = npy<int32_t>("<i4", {1, 2});
  expect_same(read_npz(put("g.npz", archive_of(arrays))), Graph::path(3));
}

}  // namespace
}  // namespace topomask::testing

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "topomask/dist.h"
#include "topomask/graph_io.h"

namespace topomask {
namespace {

class ShardFolder : public ::testing::Test {
 protected:
  ShardFolder() { std::filesystem::create_directories(root_); }
  ~ShardFolder() override { std::filesystem::remove_all(root_); }

  std::string folder(const std::string& name = "shards") const { return root_ / name; }
  static std::string bytes(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void put(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

  /// The graph that the shards of a folder make together.
  static void expect_graph(const std::string& folder, const Graph& graph) {
    const ShardIndex index = read_shard_index(folder);
    int64_t rows = 0;
    for (int64_t part = 0; part < index.partition.parts; ++part) {
      const Shard read = read_shard(folder, index, part), made = shard_of(graph, index.partition, part);
      EXPECT_EQ(read.nodes, graph.num_nodes());
      EXPECT_EQ(read.directed, graph.directed());
      EXPECT_TRUE(read.rows.equal(made.rows));
      EXPECT_TRUE(read.offsets.equal(made.offsets));
      EXPECT_TRUE(read.columns.equal(made.columns));
      EXPECT_TRUE(read.weights.equal(made.weights));
      rows += read.rows.size(0);
    }
    EXPECT_EQ(rows, graph.num_nodes());
  }

  std::filesystem::path root_ =
      std::filesystem::temp_directory_path() / ("topomask_shards_" + std::to_string(::getpid()) + "_" +
                                                ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

std::string shard_refusal(const std::string& folder, int64_t part) {
  try {
    read_shard(folder, read_shard_index(folder), part);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "nothing was refused";
}

TEST_F(ShardFolder, KeepsEveryRow) {
  const Graph er = Graph::erdos_renyi(200, 0.03, 1);
  for (const Graph& graph : {er.normalised(), er.normalised().to(at::kDouble), Graph::path(3)}) {
    write_shards(graph, partition(graph, 3), folder());
    expect_graph(folder(), graph);
  }
}

TEST_F(ShardFolder, OfAStreamAreThoseOfTheGraph) {
  const Graph graph = Graph::erdos_renyi(300, 0.02, 4);
  const std::string file = root_ / "edges.txt";
  write_snap(graph, file);
  std::ofstream(file, std::ios::app) << "5\t5\n7 7\n7 7\n";
  for (const bool directed : {false, true}) {
    const Graph whole = read_snap(file, {.directed = directed});
    shard_edge_list(file, partition(whole, 4), folder(), directed);
    expect_graph(folder(), whole);
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder()), {}), 5);  // no temporary file is left
}

TEST_F(ShardFolder, OfAStreamKeepTheWeightGivenFirst) {
  const std::string file = root_ / "edges.txt";
  put(file, "# a comment\n0 1 0.5\n\n1 0 7\n2 1 -2\n2 2 3\n2 1 9\n");
  const Graph whole = read_snap(file);
  shard_edge_list(file, partition(whole, 2), folder(), false);
  expect_graph(folder(), whole);
}

TEST_F(ShardFolder, OfACompressedStreamAreThoseOfTheGraph) {
  const Graph graph = Graph::erdos_renyi(300, 0.02, 4);
  const std::string plain = root_ / "edges.txt", packed = root_ / "edges.txt.gz";
  write_snap(graph, plain);
  const std::string text = bytes(plain);
  gzFile file = gzopen(packed.c_str(), "wb");
  ASSERT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())), static_cast<int>(text.size()));
  ASSERT_EQ(gzclose(file), Z_OK);
  ASSERT_LT(bytes(packed).size(), text.size());
  const Graph whole = read_snap(plain);
  shard_edge_list(packed, partition(whole, 3), folder(), false);
  expect_graph(folder(), whole);
}

TEST_F(ShardFolder, StreamRefusesNodesBeyondThePartition) {
  const std::string file = root_ / "edges.txt";
  put(file, "0 1\n1 9\n");
  const Partition owners = given_partition(4, at::tensor({0, 0, 1, 1}), 2);
  try {
    shard_edge_list(file, owners, folder(), false);
    FAIL() << "node 9 was taken";
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find("edges.txt:2: node id 9: the partition has 4 nodes"), std::string::npos);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder()));
}

TEST_F(ShardFolder, RefusesAFlippedBitAnywhere) {
  const Graph graph = Graph::path(6);
  write_shards(graph, partition(graph, 2), folder());
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    const std::string path = entry.path(), whole = bytes(path);
    for (size_t at = 0; at < whole.size(); ++at) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 4);
      put(path, damaged);
      EXPECT_NE(shard_refusal(folder(), 0) + shard_refusal(folder(), 1), "nothing was refusednothing was refused")
          << path << " byte " << at;
    }
    put(path, whole.substr(0, whole.size() / 2));
    EXPECT_NE(shard_refusal(folder(), 0) + shard_refusal(folder(), 1), "nothing was refusednothing was refused");
    put(path, whole);
  }
  EXPECT_EQ(shard_refusal(folder(), 1), "nothing was refused");
}

TEST_F(ShardFolder, ChecksumsOfRowsWithoutEntriesAreThoseOfTheRows) {
  const Graph graph = Graph::path(1);
  write_shards(graph, partition(graph, 1), folder());
  const std::string shard = bytes(folder() + "/shard-00000-of-00001.tmshard");
  constexpr size_t kHeader = 80, kRows = 8 + 2 * 8;  // a row and two offsets; no columns and no weights
  ASSERT_EQ(shard.size(), kHeader + kRows + 4);
  uint32_t sum = 0;
  std::memcpy(&sum, shard.data() + kHeader + kRows, sizeof(sum));
  EXPECT_EQ(sum, crc32(0, reinterpret_cast<const unsigned char*>(shard.data()) + kHeader, kRows));
  EXPECT_EQ(shard_refusal(folder(), 0), "nothing was refused");
}

TEST_F(ShardFolder, NamesTheIndexWhoseOwnersAreOutOfRange) {
  const Graph graph = Graph::path(6);
  write_shards(graph, partition(graph, 2), folder());
  const std::string path = folder() + "/index.tmshards";
  std::string index = bytes(path);
  constexpr size_t kHeader = 80;
  index[kHeader] = 5;  // the owner of node 0, of two parts; the checksum of the arrays is corrected
  const auto* arrays = reinterpret_cast<const unsigned char*>(index.data()) + kHeader;
  const auto sum = static_cast<uint32_t>(crc32(0, arrays, static_cast<uInt>(index.size() - kHeader - 4)));
  std::memcpy(index.data() + index.size() - 4, &sum, sizeof(sum));
  put(path, index);
  EXPECT_EQ(shard_refusal(folder(), 0), "read_shard_index: " + path +
                                            ": malformed: partition: owners must be in [0, parts = 2), got 5 for "
                                            "node 0");
}

TEST_F(ShardFolder, RefusesShardsThatDoNotBelongTogether) {
  const Graph graph = Graph::cycle(12), other = graph.normalised();
  const at::Tensor halves = at::arange(12, at::kLong).div(6, "floor"), odd = at::arange(12, at::kLong) % 2;
  write_shards(graph, given_partition(12, halves, 2), folder("a"));
  write_shards(graph, given_partition(12, odd, 2), folder("partition"));
  write_shards(other, given_partition(12, halves, 2), folder("graph"));
  const std::string name = "/shard-00001-of-00002.tmshard";
  const auto with = [&](const std::string& from) {
    std::filesystem::copy_file(folder(from) + name, folder("a") + name,
                               std::filesystem::copy_options::overwrite_existing);
    return shard_refusal(folder("a"), 1);
  };
  EXPECT_NE(with("partition").find("got part 1 of 2 of 12 nodes of another partition"), std::string::npos);
  EXPECT_NE(with("graph").find("fingerprint mismatch: the shard belongs to another graph than the index"),
            std::string::npos);
}

}  // namespace
}  // namespace topomask

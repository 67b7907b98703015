#include <filesystem>
#include <fstream>

#include "walks/helpers.h"

namespace topomask::testing {
namespace {

class WalkFile : public ::testing::Test {
 protected:
  WalkFile() { std::filesystem::create_directories(folder_); }
  ~WalkFile() override { std::filesystem::remove_all(folder_); }

  std::string path() const { return folder_ / "table.walks"; }
  std::string bytes() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void put(const std::string& bytes) const { std::ofstream(path(), std::ios::binary) << bytes; }
  size_t files() const { return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {})); }

 private:
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("topomask_walks_" + std::to_string(::getpid()) + "_" +
                                                ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(WalkFile, KeepsEverything) {
  const Graph graph = weighted_digraph();
  const at::Tensor survival = at::tensor({1., .5, .25}, at::kDouble), proposal = at::rand({graph.num_entries()}) + .1;
  const std::vector<WalkTable> tables = {
      sample_walks(graph, {.walkers = 3, .max_hops = 7, .seed = ~uint64_t{0}, .first_walker = 9}),
      sample_walks(graph.to(at::kFloat), {.walkers = 4, .survival = survival, .exact_hops = 1, .group_products = true}),
      sample_walks(graph, {.fixed_hops = 4, .proposal = Proposal::given, .proposal_weights = proposal}),
      sample_walks(graph, {.walkers = 4, .coupling = Coupling::antithetic_repelling, .ensemble = 2}),
      sample_walks(Graph::path(0), {.group_products = true}),
      walk_table_from_walks(graph, at::arange(7).view({7, 1, 1}))};
  for (const WalkTable& table : tables) {
    save_walks(table, path());
    const WalkTable read = load_walks(path());
    expect_same(read, table);
    EXPECT_EQ(read.dtype(), table.dtype());
    EXPECT_EQ(read.sampled(), table.sampled());
    EXPECT_EQ(read.options().seed, table.options().seed);
    EXPECT_EQ(read.options().fixed_hops, table.options().fixed_hops);
    EXPECT_EQ(read.options().group_products, table.options().group_products);
    EXPECT_EQ(files(), 1u);
    if (table.sampled() && table.num_nodes() > 0) {
      const Graph same = graph.to(table.dtype());
      expect_same(extend_walks(read, same, 4), extend_walks(table, same, 4));
    }
  }
}

TEST_F(WalkFile, IsRefusedWhereverItIsCut) {
  save_walks(sample_walks(Graph::path(4), {.walkers = 2, .group_products = true}), path());
  const std::string whole = bytes();
  for (size_t size = 0; size < whole.size(); ++size) {
    put(whole.substr(0, size));
    EXPECT_ERROR(load_walks(path()), "load_walks: " + path() + ": ");
  }
  put(whole + "x");
  EXPECT_ERROR(load_walks(path()), "bytes, as the header says, got");
}

TEST_F(WalkFile, IsRefusedWhicheverBitFlips) {
  // The last array of the second table is empty.
  const WalkTable tables[] = {
      sample_walks(Graph::path(4), {.walkers = 2, .group_products = true}),
      sample_walks(Graph::path(1), {.walkers = 2, .proposal = Proposal::given, .proposal_weights = at::empty({0})})};
  for (const WalkTable& table : tables) {
    save_walks(table, path());
    const std::string whole = bytes();
    for (size_t at = 0; at < whole.size(); ++at) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
      put(damaged);
      EXPECT_ERROR(load_walks(path()), "load_walks: " + path() + ": ");
    }
  }
}

TEST_F(WalkFile, SaysWhatIsWrong) {
  save_walks(sample_walks(Graph::path(4)), path());
  const std::string whole = bytes();
  put("no table");
  EXPECT_ERROR(load_walks(path()), "too short for a walk table");
  put(std::string(400, 'x'));
  EXPECT_ERROR(load_walks(path()), "not a walk table");
  std::string other = whole;
  other[8] = 9;
  put(other);
  EXPECT_ERROR(load_walks(path()), "walk table of version 9, this library reads version 1");
  other = whole;
  other[100] ^= 1;
  put(other);
  EXPECT_ERROR(load_walks(path()), "the header is damaged");
  other = whole;
  other[other.size() - 20] ^= 1;
  put(other);
  EXPECT_ERROR(load_walks(path()), "the content is damaged: its checksum does not match");
  EXPECT_ERROR(load_walks(path() + ".none"), "cannot open the file");
  EXPECT_ERROR(save_walks(sample_walks(Graph::path(4)), "/no/such/folder/table"),
               "save_walks: /no/such/folder/table: ");
  EXPECT_ERROR(save_walks(sample_walks(Graph::path(4)), path() + ".gz"), "walk tables are not compressed");
}

/// A file whose checksums are right and whose content is not.
class ForgedWalkFile : public WalkFile {
 protected:
  static void seal(std::string& bytes) {
    const auto checksum = [&](size_t from, size_t to) {
      uint32_t crc = ~0u;
      for (size_t k = from; k < to; ++k) {
        crc ^= static_cast<unsigned char>(bytes[k]);
        for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
      }
      return ~crc;
    };
    constexpr size_t kHeader = 152;
    const uint32_t header = checksum(16, kHeader), content = checksum(kHeader, bytes.size() - 4);
    std::memcpy(bytes.data() + 12, &header, 4);
    std::memcpy(bytes.data() + bytes.size() - 4, &content, 4);
  }
  void expect_refused(size_t at, int64_t value, size_t size, const std::string& text) {
    std::string forged = whole_;
    std::memcpy(forged.data() + at, &value, size);
    seal(forged);
    put(forged);
    EXPECT_ERROR(load_walks(path()), text);
  }
  void save(const WalkTable& table) {
    save_walks(table, path());
    whole_ = bytes();
    std::string sealed = whole_;
    seal(sealed);
    ASSERT_EQ(sealed, whole_);
  }

 private:
  std::string whole_;
};

TEST_F(ForgedWalkFile, IsCheckedAsATable) {
  const WalkTable table = sample_walks(Graph::path(4), {.walkers = 2, .fixed_hops = 2, .group_products = true});
  save(table);
  const size_t offsets = 152, columns = offsets + 8 * 5, triples = static_cast<size_t>(table.columns().size(0));
  const size_t hops = columns + 4 * triples, counts = hops + 6 * triples, products = counts + 4 * triples;
  expect_refused(offsets, 1, 8, "offsets must run from 0 to");
  expect_refused(offsets + 8, 1000, 8, "offsets must not decrease, got 1000 then");
  expect_refused(columns, 4, 4, "a triple must have a column below 4, a hop up to 2 and a count, got 4, 0");
  expect_refused(columns, 3, 4, "triples must ascend by column and hop, got another order in row 0");
  expect_refused(hops, 3, 2, "a triple must have a column below 4, a hop up to 2");
  expect_refused(counts, -1, 4, "a triple must have a column below 4");
  expect_refused(products + 8 * 5, 2, 2, "product_hops must be t <= u up to 2, got 2 and 0");
}

TEST_F(ForgedWalkFile, CannotAskForMemoryItDoesNotFill) {
  save(sample_walks(Graph::path(4), {.walkers = 2}));
  constexpr size_t kNodes = 16 + 12 * 8;
  for (size_t field = 0; field < 5; ++field) {
    for (const int64_t value : {int64_t{1} << 62, int64_t{1} << 40, int64_t{-2}, INT64_MIN}) {
      expect_refused(kNodes + 8 * field, value, 8, "load_walks: ");
    }
  }
  expect_refused(kNodes, int64_t{1} << 61, 8, "the header promises 2305843009213693952 elements in");
  expect_refused(16, 0, 8, "walkers must be in [1, 2^31-1], got 0");
  expect_refused(16 + 4 * 8, 7, 8, "unknown coupling 7 or proposal 0");
  expect_refused(16 + 11 * 8, 7, 8, "the header contradicts itself on the longest walk");
  expect_refused(16 + 8 * 8, INT64_MAX, 8, "first_walker must be >= 0 and first_walker + walkers <= 2^32");
  expect_refused(kNodes + 2 * 8, 0, 8, "the header contradicts itself on group products");
}

}  // namespace
}  // namespace topomask::testing

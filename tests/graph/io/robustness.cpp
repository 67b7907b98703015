#include <sys/resource.h>

#include <random>

#include "graph/io/helpers.h"

namespace topomask::testing {
namespace {

using Robustness = GraphFiles;
using Reader = Graph (*)(const std::string&, const ReadOptions&);

const ReadOptions kSmall{.limits = {.max_nodes = 1 << 20, .max_edges = 1 << 20, .max_isolated = 1 << 16}};
constexpr int64_t kMebibyte = 1024;  // in the KiB of ru_maxrss

int64_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

struct Sample {
  std::string name;
  Reader read;
  std::string bytes;
  bool every_cut_fails = false;
};

std::vector<Sample> samples() {
  const std::string snap = "# Nodes: 14 Edges: 4\n0\t1\t0.5\n1\t12\t-2e3\n\n3\t2\t1\n13 4 7\n";
  const std::string metis = "% mesh\n6 6 1\n2 7 3 1\n1 7 3 2\n1 1 2 2 4 12\n3 12 5 1 6 3\n4 1\n4 3\n";
  const std::string market =
      "%%MatrixMarket matrix coordinate real symmetric\n% c\n12 12 3\n2 1 0.5\n12 3 -1e2\n11 11 7\n";
  const auto npz = [](bool deflate) {
    return zip_of(
        {{.name = "src.npy", .bytes = npy<int64_t>("<i8", {0, 1, 2, 3}), .deflate = deflate},
         {.name = "dst.npy", .bytes = npy<int32_t>("<i4", {1, 2, 3, 0}), .deflate = deflate, .descriptor = deflate},
         {.name = "weight.npy", .bytes = npy<float>("<f4", {1, 2, 3, 4}), .deflate = deflate},
         {.name = "num_nodes.npy", .bytes = npy<int64_t>("<i8", {9}, "()")}});
  };
  return {{"snap", read_snap, snap},
          {"snap.gz", read_snap, gzipped(snap), true},
          {"metis", read_metis, metis},
          {"metis.gz", read_metis, gzipped(metis), true},
          {"market", read_matrix_market, market},
          {"market.gz", read_matrix_market, gzipped(market), true},
          {"stored.npz", read_npz, npz(false), true},
          {"deflated.npz", read_npz, npz(true), true}};
}

TEST_F(Robustness, TruncationAtEveryByteIsAnErrorOrASmallerGraph) {
  const int64_t before = peak_memory();
  for (const Sample& sample : samples()) {
    SCOPED_TRACE(sample.name);
    const Graph whole = sample.read(put(sample.name, sample.bytes), kSmall);
    for (size_t cut = 0; cut < sample.bytes.size(); ++cut) {
      const std::string path = put(sample.name, sample.bytes.substr(0, cut));
      bool failed = false;
      try {
        const Graph part = sample.read(path, kSmall);
        EXPECT_LE(part.num_nodes(), whole.num_nodes()) << cut;
        EXPECT_LE(part.num_edges(), whole.num_edges()) << cut;
      } catch (const c10::Error& error) {
        failed = true;
        EXPECT_NE(std::string(error.what_without_backtrace()).find(path), std::string::npos);
      }
      // A METIS file tells its length twice, so only its last line break may go.
      const bool must_fail = sample.every_cut_fails || (sample.name == "metis" && cut + 1 < sample.bytes.size());
      EXPECT_TRUE(failed || !must_fail) << "cut at byte " << cut;
    }
  }
  EXPECT_LT(peak_memory() - before, 64 * kMebibyte);
}

std::string mutated(std::string bytes, std::mt19937_64& random) {
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % std::max<size_t>(n, 1)); };
  for (size_t change = below(3) + 1; change > 0 && !bytes.empty(); --change) {
    const size_t at = below(bytes.size());
    switch (below(7)) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 2:
        bytes.insert(at, 1, "0123456789 \n\t\r-.e%#"[below(19)]);
        break;
      case 3:
        bytes.erase(at, below(4) + 1);
        break;
      case 4:
        bytes.insert(at, bytes.substr(below(bytes.size()), below(16)));
        break;
      case 5:
        bytes.insert(at, std::string(below(24), '9'));
        break;
      default:
        bytes[at] = static_cast<char>(below(2) ? 0xff : 0);
        break;
    }
  }
  return bytes;
}

TEST_F(Robustness, MutatedFilesAreReadOrRefused) {
  const int64_t before = peak_memory();
  std::mt19937_64 random(20240607);
  for (const Sample& sample : samples()) {
    int64_t accepted = 0;
    for (int i = 0; i < 2500; ++i) {
      const std::string path = put(sample.name, mutated(sample.bytes, random));
      try {
        accepted += sample.read(path, kSmall).num_nodes() >= 0;
      } catch (const c10::Error&) {
      }
    }
    RecordProperty(sample.name, std::to_string(accepted));
  }
  EXPECT_LT(peak_memory() - before, 64 * kMebibyte);
}

// The checksum hides most damage to an npz file from the code after it; here it is right and the array is not.
TEST_F(Robustness, MutatedArraysAreReadOrRefused) {
  std::mt19937_64 random(7);
  const std::string ids = npy<int64_t>("<i8", {0, 1, 2, 3});
  for (int i = 0; i < 2500; ++i) {
    const std::string path =
        put("g.npz", zip_of({{.name = "src.npy", .bytes = mutated(ids, random), .deflate = i % 2 == 0},
                             {.name = "dst.npy", .bytes = ids}}));
    try {
      read_npz(path, kSmall);
    } catch (const c10::Error&) {
    }
  }
}

TEST_F(Robustness, ALineOrTokenOfManyMegabytesTakesNoMemory) {
  const size_t many = size_t{32} << 20;
  for (const char filler : {' ', 'x', '7', '#', '%'}) {
    put("g.gz", gzipped(std::string(many, filler)));
    const int64_t before = peak_memory();
    for (const Reader read : {Reader{read_snap}, Reader{read_metis}, Reader{read_matrix_market}}) {
      try {
        read(at("g.gz"), kSmall);
      } catch (const c10::Error&) {
      }
    }
    EXPECT_LT(peak_memory() - before, 16 * kMebibyte) << filler;
  }
}

TEST_F(Robustness, ADecompressionBombStopsAtTheLimit) {
  std::string edges;
  for (int i = 0; i < 1 << 22; ++i) edges += "0 1\n";
  put("bomb.gz", gzipped(edges));
  edges = {};
  ReadOptions options = kSmall;
  options.limits.max_edges = 1000;
  EXPECT_EQ(error_of([&] { read_snap(at("bomb.gz"), options); }),
            "read_snap: " + at("bomb.gz") + ":1001: 1001 edges are more than the 1000 that limits.max_edges allows");
}

}  // namespace
}  // namespace topomask::testing

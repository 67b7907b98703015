#include <ATen/ATen.h>

#include "graph/csr.h"
#include "topomask/graph.h"

namespace topomask {
namespace {

/// SplitMix64 (Steele, Lea and Flood 2014): output t is a hash of seed + t·golden, so every library draws the same
/// stream.
class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}

  /// Uniform in (0, 1], a multiple of 2⁻⁵³: its logarithm is finite.
  double uniform() { return static_cast<double>((next() >> 11) + 1) * 0x1p-53; }

 private:
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }

  uint64_t state_;
};

}  // namespace

Graph Graph::erdos_renyi(int64_t nodes, double probability, uint64_t seed) {
  check_node_count("erdos_renyi", "nodes", nodes);
  TORCH_CHECK(probability >= 0 && probability <= 1, "erdos_renyi: probability must be in [0, 1], got ", probability);
  const double expected = probability * static_cast<double>(nodes) * static_cast<double>(nodes - 1);
  TORCH_CHECK(expected < static_cast<double>(kMaxEntries),
              "erdos_renyi: probability must give fewer than 2^33 = ", kMaxEntries, " expected entries, got ",
              expected);
  if (probability == 1) return complete(nodes);

  std::vector<int32_t> source;
  std::vector<int32_t> target;
  if (probability > 0) {
    SplitMix64 random(seed);
    const double log_miss = std::log1p(-probability);
    const double pairs = static_cast<double>(nodes) * static_cast<double>(nodes) / 2;
    // Pairs (row, column < row) in row order; the misses between two edges are geometric (Batagelj and Brandes 2005).
    int64_t row = 1;
    int64_t column = -1;
    while (row < nodes) {
      column += 1 + static_cast<int64_t>(std::min(std::floor(std::log(random.uniform()) / log_miss), pairs));
      while (row < nodes && column >= row) column -= row++;
      if (row < nodes) {
        source.push_back(static_cast<int32_t>(row));
        target.push_back(static_cast<int32_t>(column));
      }
    }
  }
  return from_edges(nodes, at::tensor(source), at::tensor(target));
}

}  // namespace topomask

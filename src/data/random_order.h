#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "core/philox.h"

namespace topomask {

/// What Philox's fourth counter word is for, so that no two uses share random numbers.
enum class DrawFor : uint32_t {
  split = 1,
  order,
  augmentation,
  mixing,
  synthetic,
  motif,
  cycle,
  ngrams,
  robot,
  motion,
  fanout,
  regions,
  points,
  rotation
};

/// A permutation of 0 … n−1, n < 2³², drawn from (seed, stream, purpose).
inline std::vector<int64_t> random_order(int64_t n, uint64_t seed, uint32_t stream, DrawFor purpose) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const PhiloxKey key = philox_key(seed);
  PhiloxWords words{};
  for (uint32_t i = 0; i + 1 < static_cast<uint64_t>(n); ++i) {
    if (i % 4 == 0) words = philox({i / 4, 0, stream, static_cast<uint32_t>(purpose)}, key);
    const uint32_t word = i % 4 == 0 ? words.a : i % 4 == 1 ? words.b : i % 4 == 2 ? words.c : words.d;
    std::swap(order[i], order[i + random_below(word, static_cast<uint32_t>(n) - i)]);
  }
  return order;
}

}  // namespace topomask

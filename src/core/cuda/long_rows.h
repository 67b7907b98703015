#pragma once

#include <algorithm>
#include <cstdint>

// Rows of very many entries (a token that attends to all, a hub of a network) would keep a few threads busy long after
// all others are done: kernels over rows leave them out, and a second launch gives a block to each.

namespace topomask::cuda {

/// The most entries that a row has without being long: many for any row, and many beside the others.
inline int longest_short_row(int64_t entries, int64_t rows) {
  constexpr int64_t kMany = 2048, kTimesOthers = 16;
  const int64_t most = std::max(kMany, kTimesOthers * entries / std::max<int64_t>(rows, 1));
  return static_cast<int>(std::min<int64_t>(most, INT32_MAX));
}

}  // namespace topomask::cuda

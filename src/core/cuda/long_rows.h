#pragma once

#include <algorithm>
#include <cstdint>

// Rows of very many entries (a token that attends to all, a hub of a network) would keep a few threads busy long after
// all others are done: kernels over rows leave them out, and a second launch gives a block to each.

namespace topomask::cuda {

/// The most entries that a row has without being long: many for any row, and many compared with the other rows.
inline int longest_short_row(int64_t entries, int64_t rows) {
  constexpr int64_t kMany = 2048, kTimesOthers = 16;
  const int64_t most = std::max(kMany, kTimesOthers * entries / std::max<int64_t>(rows, 1));
  return static_cast<int>(std::min<int64_t>(most, INT32_MAX));
}

/// Whether a pattern of so many entries may have long rows, so that the second launch is needed. The number of columns
/// says nothing about it: where every visit of a walk is an entry, a row names a column many times.
inline bool may_have_long_rows(int64_t entries, int longest_short) {
  return entries > longest_short;
}

/// The same for patterns whose columns are distinct inside a row, as SparsePattern asks for on the CPU: a row then has
/// at most as many entries as there are columns, which saves the launch on small graphs.
inline bool may_have_long_rows(int64_t entries, int64_t distinct_columns, int longest_short) {
  return std::min(entries, distinct_columns) > longest_short;
}

}  // namespace topomask::cuda

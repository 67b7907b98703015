#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "graph/io/edge_list.h"

namespace topomask::io {

/// Whether the entries of a symmetric file give each pair of nodes one value. Files in the usual order, one triangle by
/// rows or by columns, are checked while they are read; others are sorted.
class SymmetricPairs {
 public:
  void add(int64_t row, int64_t column, int64_t line);  ///< an entry, 0-based, in the order of the file

  /// Refuses two different values for one pair, naming the line of the second. Duplicates::sum allows them where both
  /// are in the same triangle.
  void check_values(const Origin& origin, const EdgeList& edges, Duplicates duplicates) const;

 private:
  int64_t line_of(int64_t entry) const;

  int64_t entries_ = 0;
  int64_t last_line_ = -1;
  std::pair<int64_t, int64_t> last_{-1, -1};         // lower and higher node
  bool by_lower_ = true, by_higher_ = true;          // so far in strictly ascending order of either
  std::vector<std::pair<int64_t, int64_t>> starts_;  // (entry, line) wherever lines were skipped between entries
};

}  // namespace topomask::io

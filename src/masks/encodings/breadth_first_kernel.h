#pragma once

#include <cstdint>

namespace topomask {

struct BreadthFirstArgs {
  const int64_t* offsets;
  const int32_t* columns;
  int64_t nodes;
  int32_t* distances;  ///< [nodes, nodes]
};

/// One search for each bit of a word.
inline constexpr int64_t kSearches = 64;

/// For one thread. Words have one bit per search and are zero between calls; lists have room for nodes + 1.
struct BreadthFirstWorkspace {
  uint64_t* seen;
  uint64_t* frontier;
  uint64_t* next;
  int32_t* active;   ///< nodes of the frontier
  int32_t* touched;  ///< nodes of the next one
};

/// Rows first … first + count − 1 of the table, count ≤ kSearches: hops from the source of each row, −1 where there is
/// no path. The searches go together, so that an edge is walked once for all that reach it at the same level (Then et
/// al. 2014).
void breadth_first_rows(const BreadthFirstArgs& args, const BreadthFirstWorkspace& workspace, int64_t first,
                        int64_t count);

}  // namespace topomask

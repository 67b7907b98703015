#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "topomask/walks.h"
#include "walks/batch.h"
#include "walks/collect_kernel.h"

namespace topomask {

/// What a table is built from: `rows` start nodes, whose walks `fill` puts into a batch for rows begin … end-1.
struct TableSource {
  int64_t rows = 0;
  int64_t nodes = 0;
  int64_t walkers = 0;          ///< that `fill` gives to a row
  double visits_per_row = 1;    ///< about
  const uint32_t* starts = {};  ///< [rows], ascending; null: all nodes
  bool unit_starts = true;      ///< every walk begins with load 1
  int64_t group = 0;            ///< walkers in an independent group, for group products; 0: none wanted
  int64_t first_walker = 0;
  const WalkTable* earlier = {};  ///< walks of the same rows that come before these
};

/// Makes one filler per worker; a filler is called for one batch of rows after the other.
template <class T>
using BatchFiller = std::function<void(const uint32_t* starts, int64_t rows, WalkBatch<T>& batch)>;

/// The rows of a table, on all threads; each row depends on its own walks only.
///
/// Threads fill arenas of a few megabytes, which stay in the cache, and these are copied into place before the next
/// wave: a table of a gigabyte is written once, and takes nothing near its size beside it.
template <class T>
WalkTable::Arrays build_table(const TableSource& source, const std::function<BatchFiller<T>()>& make_filler);

}  // namespace topomask

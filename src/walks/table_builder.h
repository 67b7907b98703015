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
  int64_t walkers = 0;            ///< that `fill` gives to a row
  double visits_per_row = 1;      ///< about
  int64_t indivisible = 0;        ///< walkers that must come in one batch, and a multiple of them may; 0: all of a row
  const uint32_t* starts = {};    ///< [rows], ascending; null: all nodes
  bool unit_starts = true;        ///< every walk begins with load 1
  int64_t group = 0;              ///< walkers in an independent group, for group products; 0: none wanted
  const WalkTable* earlier = {};  ///< walks of the same rows that come before these
};

/// Some of the walkers that a source gives to each row, counted from 0.
struct WalkerRange {
  int64_t first = 0, last = 0;
};

/// Makes one filler per worker; a filler is called for one batch of rows after the other.
template <class T>
using BatchFiller = std::function<void(const uint32_t* starts, int64_t rows, WalkerRange walkers, WalkBatch<T>& batch)>;

/// The rows of a table, on all threads; each row depends on its own walks only.
///
/// Threads fill arenas of a few megabytes, which stay in the cache, and these are copied into place before the next
/// wave: a table of a gigabyte is written once, and far less than its size is needed in addition. A row of very many
/// walkers is made in parts, each merged into what the ones before left of it, bit for bit what all at once would give.
template <class T>
WalkTable::Arrays build_table(const TableSource& source, const std::function<BatchFiller<T>()>& make_filler);

}  // namespace topomask

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "walks/batch.h"
#include "walks/collect_kernel.h"
#include "walks/group_products.h"
#include "walks/table_builder.h"

namespace topomask {

/// Rows of a table as one thread makes them, in arrays that are kept from call to call.
template <class T>
class RowWorker {
 public:
  RowWorker(const TableSource& source, BatchFiller<T> fill);

  void run(int64_t begin, int64_t end);

  int64_t triples = 0, entries = 0;
  std::vector<int32_t> columns, counts, entry_columns;
  std::vector<int16_t> hops;
  std::vector<T> loads;
  std::vector<uint32_t> entry_ends;
  std::vector<int64_t> row_triples, row_entries, row_products;
  GroupProducts<T> products;

 private:
  void take_starts(int64_t first, int64_t count);
  void run_in_parts(int64_t row);  ///< the one row in starts_, its walkers part by part
  int64_t part_walkers(int64_t visits) const;
  void reopen_row(int64_t row);  ///< what was made of the last row becomes walks that come before
  void collect(int64_t row, int64_t rows, int64_t walkers);  ///< the batch's rows as triples and entries
  void multiply(int64_t row, int64_t rows);                  ///< the batch's rows as group products
  void add_earlier_products(int64_t row);
  void reserve_output(int64_t more);
  CollectWorkspace<T> workspace(int64_t longest);

  const TableSource& source_;
  BatchFiller<T> fill_;
  EarlierWalks<T> table_walks_{}, earlier_{};  // those of source_.earlier, and those of the present batch
  std::vector<int64_t> earlier_first_, earlier_next_;
  // The row so far, between its parts.
  int64_t part_offsets_[2] = {0, 0};
  std::vector<int32_t> part_columns_, part_counts_;
  std::vector<int16_t> part_hops_;
  std::vector<T> part_loads_;
  WalkBatch<T> batch_;
  std::vector<uint32_t> starts_;
  std::vector<int64_t> cursor_;
  // The workspace of collect_rows.
  std::vector<CollectedVisits<T>> visits_;
  std::vector<CollectedColumn> distinct_;
  std::vector<int32_t> column_;
  std::vector<uint32_t> rank_;
  std::vector<uint64_t> scratch_, table_;
};

}  // namespace topomask

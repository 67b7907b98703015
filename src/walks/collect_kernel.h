#pragma once

#include <cstdint>

#include "walks/step_kernel.h"

namespace topomask {

/// Visits of one node at one hop, summed.
template <class T>
struct CollectedVisits {
  T load;
  uint32_t count;
  uint32_t id;  ///< of the column, by appearance in the row
  uint32_t hop;
};

/// A distinct column of a row.
struct CollectedColumn {
  uint32_t slot;      ///< its place in the hash table
  uint32_t size;      ///< how many CollectedVisits it has
  uint32_t last;      ///< the last of them; when they are put in order, where the next one goes
  uint32_t last_hop;  ///< the hop of that one, plus 1
};

/// Memory for the rows of a batch: arrays of as many elements as a row has visits at most, and kWidthUnit more; and a
/// hash table of at least twice as many slots, a power of two. `visits`, `columns` and `table` are zero between rows.
template <class T>
struct CollectWorkspace {
  CollectedVisits<T>* visits;
  CollectedColumn* columns;
  int32_t* column;  ///< per distinct column: its number in the graph
  uint32_t* rank;   ///< per distinct column: its place in ascending order
  uint64_t* scratch;
  uint64_t* table;
  int table_bits;
};

/// A table whose rows come before the visits of the batch; null where there is none.
template <class T>
struct EarlierWalks {
  const int64_t* offsets;
  const int32_t* columns;
  const int16_t* hops;
  const T* loads;
  const int32_t* counts;
  int64_t* first;          ///< per hop, −1 between rows: the row's first triple of that hop, …
  int64_t* next;           ///< … and from each triple of the row to the next one of its hop, −1 at the end
  uint32_t first_row = 0;  ///< the node that offsets[0] belongs to
};

/// Turns the visits of a batch into rows of a table, one after the other: per row the triples (column, hop, load,
/// count) in order, and the entries of Φ̂, their columns and ends.
template <class T>
struct CollectArgs {
  Walkers<T> visits;    ///< as WalkBatch keeps them
  const int64_t* ends;  ///< per hop: its last visit, plus one
  int64_t* cursor;      ///< per hop: the first visit of the next row
  int64_t hops;
  const uint32_t* starts;  ///< per row of the batch
  int64_t merged_starts;   ///< how many walkers begin each row, where their loads are all 1; else 0
  EarlierWalks<T> earlier;
  CollectWorkspace<T> work;
  int32_t* columns;
  int16_t* hop;
  T* loads;
  int32_t* counts;
  int32_t* entry_columns;
  uint32_t* entry_ends;  ///< counted from the first triple of the arrays above
  int64_t* row_triples;  ///< per row of the batch
  int64_t* row_entries;
  int64_t* triples;  ///< written so far in the arrays above: in and out
  int64_t* entries;
};

/// Rows begin … end-1 of the batch, in order.
void collect_rows(const CollectArgs<float>& args, int64_t begin, int64_t end);
void collect_rows(const CollectArgs<double>& args, int64_t begin, int64_t end);

}  // namespace topomask

#include "walks/collect_kernel.h"

#include <algorithm>

#include "core/simd.h"

namespace topomask {
namespace {

/// Up to here the rank of each column is found by comparing it with all others, in vectors and without branches.
constexpr int64_t kMostCompared = 96;

__attribute__((noinline)) void rank_by_sorting(const int32_t* columns, int64_t count, uint32_t* rank,
                                               uint64_t* scratch) {
  for (int64_t i = 0; i < count; ++i) {
    scratch[i] = static_cast<uint64_t>(columns[i]) << 32 | static_cast<uint64_t>(i);
  }
  std::sort(scratch, scratch + count);
  for (int64_t i = 0; i < count; ++i) rank[static_cast<uint32_t>(scratch[i])] = static_cast<uint32_t>(i);
}

/// rank[i] = how many columns are less than columns[i]; both arrays have room up to a multiple of kWidthUnit.
template <int kBytes>
TOPOMASK_INLINE void rank_by_comparing(int32_t* columns, int64_t count, uint32_t* rank) {
  typedef int32_t Integers __attribute__((vector_size(kBytes)));
  typedef int32_t Loose __attribute__((vector_size(kBytes), aligned(4), may_alias));
  constexpr int64_t kLanes = kBytes / 4;
  for (int64_t i = 0; i < count; i += kLanes) {
    const Integers here = *reinterpret_cast<const Loose*>(columns + i);
    Integers less{};
    for (int64_t j = 0; j < count; ++j) less -= (Integers)((Integers{} + columns[j]) < here);
    *reinterpret_cast<Loose*>(rank + i) = less;
  }
}

/// What a row has gathered so far.
struct Gathered {
  uint32_t visits = 0;
  uint32_t columns = 0;
};

/// `yes` or `no`: by masking, since the compiler would make a branch of a choice, and which visits repeat a column is
/// nothing that a branch predictor could learn.
TOPOMASK_INLINE uint32_t choose(bool which, uint32_t yes, uint32_t no) {
  return no ^ ((yes ^ no) & -static_cast<uint32_t>(which));
}

/// Adds a visit, or adds to one. Visits come by hop, so that those of one column and hop follow each other.
template <class T>
TOPOMASK_INLINE void gather(const CollectWorkspace<T>& work, Gathered& row, uint32_t column, uint32_t hop, T load,
                            uint32_t count) {
  const uint32_t mask = (1u << work.table_bits) - 1, key = column + 1;
  uint32_t slot = (column * 0x9E3779B1u) >> (32 - work.table_bits);
  uint64_t found = work.table[slot];
  // As long as the slot is taken, and by another: a product, so that both ways out are one branch.
  while ((found >> 32) * ((found >> 32) ^ key) != 0) {
    slot = (slot + 1) & mask;
    found = work.table[slot];
  }
  const bool fresh = found == 0;
  const uint32_t id = choose(fresh, row.columns, static_cast<uint32_t>(found));
  work.table[slot] = static_cast<uint64_t>(key) << 32 | id;
  work.column[id] = static_cast<int32_t>(column);
  const CollectedColumn known = work.columns[id];
  const bool again = known.last_hop == hop + 1;
  const uint32_t at = choose(again, known.last, row.visits);
  work.columns[id] = {slot, known.size + !again, at, hop + 1};
  CollectedVisits<T>& visits = work.visits[at];
  visits.load += load;
  visits.count += count;
  visits.id = id;
  visits.hop = hop;
  row.columns += fresh;
  row.visits += !again;
}

/// Lists the earlier triples of a row by hop; returns the number of hops.
template <class T>
TOPOMASK_INLINE int64_t list_earlier(const EarlierWalks<T>& earlier, int64_t begin, int64_t end) {
  int64_t hops = 0;
  for (int64_t p = end; p-- > begin;) {
    const int64_t hop = earlier.hops[p];
    earlier.next[p - begin] = earlier.first[hop];
    earlier.first[hop] = p;
    hops = hop < hops ? hops : hop + 1;
  }
  return hops;
}

template <class T>
TOPOMASK_INLINE Gathered gather_row(const CollectArgs<T>& args, int64_t r) {
  Gathered row;
  const uint32_t start = args.starts[r];
  const EarlierWalks<T>& earlier = args.earlier;
  const int64_t* bounds = earlier.offsets ? earlier.offsets + (start - earlier.first_row) : nullptr;
  const int64_t begin = bounds ? bounds[0] : 0;
  const int64_t earlier_hops = bounds ? list_earlier(earlier, begin, bounds[1]) : 0;
  const int64_t hops = args.hops < earlier_hops ? earlier_hops : args.hops;
  for (int64_t hop = 0; hop < hops; ++hop) {
    const auto t = static_cast<uint32_t>(hop);
    if (hop < earlier_hops) {
      for (int64_t p = earlier.first[hop]; p >= 0; p = earlier.next[p - begin]) {
        gather(args.work, row, static_cast<uint32_t>(earlier.columns[p]), t, earlier.loads[p],
               static_cast<uint32_t>(earlier.counts[p]));
      }
      earlier.first[hop] = -1;
    }
    if (hop >= args.hops) continue;
    int64_t v = args.cursor[hop];
    if (hop == 0 && args.merged_starts > 0) {
      gather(args.work, row, start, 0, static_cast<T>(args.merged_starts), static_cast<uint32_t>(args.merged_starts));
      v += args.merged_starts;
    }
    for (; v < args.ends[hop] && args.visits.start[v] == start; ++v) {
      gather(args.work, row, args.visits.position[v], t, args.visits.load[v], 1);
    }
    args.cursor[hop] = v;
  }
  return row;
}

/// Writes a row by column; the visits of a column came by hop.
template <int kBytes, class T>
TOPOMASK_INLINE void write_row(const CollectArgs<T>& args, const Gathered& row, int64_t r) {
  const CollectWorkspace<T>& work = args.work;
  if (row.columns <= kMostCompared) {
    rank_by_comparing<kBytes>(work.column, row.columns, work.rank);
  } else {
    rank_by_sorting(work.column, row.columns, work.rank, work.scratch);
  }
  for (uint32_t i = 0; i < row.columns; ++i) work.scratch[work.rank[i]] = i;
  auto at = static_cast<uint32_t>(*args.triples);
  int32_t* entry_columns = args.entry_columns + *args.entries;
  uint32_t* entry_ends = args.entry_ends + *args.entries;
  for (uint32_t i = 0; i < row.columns; ++i) {
    const uint64_t id = work.scratch[i];
    CollectedColumn& column = work.columns[id];
    column.last = at;
    at += column.size;
    work.table[column.slot] = 0;
    entry_columns[i] = work.column[id];
    entry_ends[i] = at;
  }
  for (uint32_t v = 0; v < row.visits; ++v) {
    const CollectedVisits<T> visits = work.visits[v];
    const uint32_t place = work.columns[visits.id].last++;
    args.columns[place] = work.column[visits.id];
    args.hop[place] = static_cast<int16_t>(visits.hop);
    args.loads[place] = visits.load;
    args.counts[place] = static_cast<int32_t>(visits.count);
    work.visits[v] = {};
  }
  for (uint32_t i = 0; i < row.columns; ++i) work.columns[i] = {};
  args.row_triples[r] = row.visits;
  args.row_entries[r] = row.columns;
  *args.triples += row.visits;
  *args.entries += row.columns;
}

template <class S>
TOPOMASK_INLINE void collect_rows_body(const CollectArgs<typename S::Scalar>& args, int64_t begin, int64_t end) {
  constexpr int kBytes = S::kLanes * sizeof(typename S::Scalar);
  for (int64_t r = begin; r < end; ++r) write_row<kBytes>(args, gather_row(args, r), r);
}

}  // namespace

TOPOMASK_SIMD_KERNEL(collect_rows, CollectArgs)

}  // namespace topomask

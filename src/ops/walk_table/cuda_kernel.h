#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "core/philox.h"

// Walks and the tables of their visits, on the GPU: kernels over raw pointers and a stream. The random numbers are
// those of WalkTable, so the walks are the CPU's.

namespace topomask::cuda {

template <class T>
struct WalkArgs {
  const int64_t* offsets;  ///< where walks can go, as WalkSteps has it
  const int32_t* columns;
  const T* factors;
  const uint32_t* threshold;  ///< null: uniform proposals
  const int32_t* alias;
  const uint32_t* halt_below;  ///< [max_hops]
  const T* scale;              ///< [max_hops]: 1/(1 − h)
  int64_t first_node;
  int64_t nodes;  ///< that walks start from
  int64_t walkers;
  int64_t ensemble;  ///< walkers that repel each other; 0: none do
  uint32_t first_walker;
  int max_hops;
  PhiloxKey key;
  bool antithetic;
};

/// Visits of one walk, by walk, nodes·walkers of them: the start and one for every hop made.
template <class T>
void count_visits(const WalkArgs<T>& args, int32_t* visits, cudaStream_t stream);

/// A visit is (column, hop) as one number, which orders them, and a load.
inline constexpr int kHopBits = 16;

/// The visits of walk w from ends[w] − visits[w] on, where `ends` are running sums.
template <class T>
void write_visits(const WalkArgs<T>& args, const int64_t* ends, const int32_t* visits, uint64_t* keys, T* loads,
                  cudaStream_t stream);

/// The most walkers that can repel each other here.
template <class T>
int64_t largest_ensemble();

/// Rows of at most so many visits are sorted in shared memory.
inline constexpr int64_t kShortRow = 1024;

/// Sorts each row of visits by key, stably, where no row is longer than `longest` ≤ kShortRow.
template <class T>
void sort_short_rows(const uint64_t* keys, uint64_t* sorted_keys, const T* loads, T* sorted_loads, int64_t rows,
                     const int64_t* row_offsets, int64_t longest, cudaStream_t stream);

/// The same for rows of any length: with `temporary` null, only the bytes it needs.
template <class T>
size_t sort_visits(void* temporary, size_t bytes, const uint64_t* keys, uint64_t* sorted_keys, const T* loads,
                   T* sorted_loads, int64_t visits, int64_t rows, const int64_t* row_offsets, cudaStream_t stream);

/// heads[v]: 2³² where visit v begins a triple (column, hop) of its row, plus 1 where it begins an entry (column).
void mark_heads(const uint64_t* keys, const int64_t* row_offsets, int64_t rows, int64_t* heads, cudaStream_t stream);

/// A table as WalkTable has it.
template <class T>
struct TableArgs {
  const uint64_t* keys;
  const T* visit_loads;
  const int64_t* heads;  ///< running sums
  const int64_t* row_offsets;
  int64_t rows;
  int64_t triples, entries;
  int64_t* offsets;
  int32_t* columns;
  int16_t* hops;
  T* loads;
  int32_t* counts;
  int64_t* entry_offsets;
  int32_t* entry_columns;
  int64_t* feature_offsets;
};
template <class T>
void collect_table(const TableArgs<T>& args, cudaStream_t stream);

}  // namespace topomask::cuda

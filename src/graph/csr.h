#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstdint>
#include <memory>

#include "topomask/sparse.h"

namespace topomask {

/// The most entries a builder makes: 32 GiB of columns. A typing mistake in a size is an error, not a machine out of
/// memory.
inline constexpr int64_t kMaxEntries = int64_t{1} << 33;

/// Rows per task: rows are short, and a task should outlast its start.
inline constexpr int64_t kRowGrain = 8192;

void check_node_count(const char* op, const char* argument, int64_t nodes);
void check_entry_count(const char* op, int64_t entries);

/// Node ids (int64 or int32, one dimension, cpu) as contiguous int32, each checked to lie in [lowest, nodes).
at::Tensor checked_node_ids(const char* op, const char* argument, const at::Tensor& ids, int64_t lowest, int64_t nodes);

/// Turns counts, held in offsets[1 …], into running sums, and checks the total.
void accumulate_offsets(const char* op, const at::Tensor& offsets);

/// A square pattern from a row at a time: count(i) is the length of row i, and fill(i, first, columns) writes its
/// ascending columns, where `first` is the index of the row's first entry. Rows are made in parallel.
template <class Count, class Fill>
PatternPtr pattern_from_rows(const char* op, int64_t rows, const Count& count, const Fill& fill) {
  at::Tensor offsets = at::empty({rows + 1}, at::kLong);
  int64_t* offset = offsets.mutable_data_ptr<int64_t>();
  offset[0] = 0;
  at::parallel_for(0, rows, kRowGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) offset[i + 1] = count(i);
  });
  accumulate_offsets(op, offsets);
  at::Tensor columns = at::empty({offset[rows]}, at::kInt);
  int32_t* column = columns.mutable_data_ptr<int32_t>();
  at::parallel_for(0, rows, kRowGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) fill(i, offset[i], column + offset[i]);
  });
  return std::make_shared<const SparsePattern>(rows, rows, offsets, columns);
}

}  // namespace topomask

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <mutex>
#include <vector>

#include "core/parallel.h"
#include "ops/column_union.h"
#include "ops/product_pattern/op.h"

namespace topomask::ops::product_pattern {

namespace {

struct Chunk {
  int64_t begin = 0;
  std::vector<int32_t> columns;
};

/// One parallel pass over the rows of A, each thread into a list of its own; then the lists are laid end to end.
Two product_pattern_cpu(at::TensorList a, at::TensorList b) {
  const auto [left, right] = check(a, b);
  const CsrRows rows(left.offsets, left.columns), columns_of_b(right.t_offsets, right.t_columns);
  const int64_t count = left.rows(), cols = right.rows();
  at::Tensor offsets = at::zeros({count + 1}, at::kLong);
  int64_t* offset = offsets.mutable_data_ptr<int64_t>();
  std::vector<Chunk> chunks;
  std::mutex mutex;
  for_row_ranges(rows.offset, count, 1, 16, [&](int64_t, int64_t begin, int64_t end) {
    Chunk chunk{begin, {}};
    ColumnUnion row(cols);
    for (int64_t i = begin; i < end; ++i) {
      const size_t before = chunk.columns.size();
      for (int32_t c : rows[i]) row.add(columns_of_b[c]);
      row.take(chunk.columns);
      offset[i + 1] = static_cast<int64_t>(chunk.columns.size() - before);
    }
    const std::lock_guard lock(mutex);
    chunks.push_back(std::move(chunk));
  });
  for (int64_t i = 0; i < count; ++i) offset[i + 1] += offset[i];
  at::Tensor columns = at::empty({offset[count]}, at::kInt);
  int32_t* column = columns.mutable_data_ptr<int32_t>();
  at::parallel_for(0, static_cast<int64_t>(chunks.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      std::copy(chunks[c].columns.begin(), chunks[c].columns.end(), column + offset[chunks[c].begin]);
    }
  });
  return {offsets, columns};
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CPU, m) {
  m.impl("product_pattern", product_pattern_cpu);
}

}  // namespace topomask::ops::product_pattern

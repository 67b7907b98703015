#include <ATen/ATen.h>
#include <torch/library.h>

#include <climits>

#include "core/cuda/long_rows.h"
#include "ops/pattern.h"
#include "ops/row_tiles/layout.h"

// Tests compare with this; no kernel on the CPU asks for tiles.

namespace topomask::ops::row_tiles {

namespace {

using at::Tensor;

/// Appends the chunks of the rows from `first` on.
void append_tile(std::vector<int32_t>& chunks, const int64_t* offsets, const int32_t* columns, int64_t first,
                 int64_t rows, int longest_short_row) {
  int64_t at[RowTiles::kRows] = {}, end[RowTiles::kRows] = {};
  for (int r = 0; r < RowTiles::kRows && first + r < rows; ++r) {
    at[r] = offsets[first + r];
    end[r] = offsets[first + r + 1];
    if (end[r] - at[r] > longest_short_row) end[r] = at[r];
  }
  const auto lowest = [&] {
    int32_t column = INT_MAX;
    for (int r = 0; r < RowTiles::kRows; ++r) {
      if (at[r] < end[r]) column = std::min(column, columns[at[r]]);
    }
    return column;
  };
  for (int32_t column = lowest(); column != INT_MAX;) {
    chunks.resize(chunks.size() + RowTiles::kChunkWords, 0);
    int32_t* chunk = chunks.data() + chunks.size() - RowTiles::kChunkWords;
    std::fill_n(chunk, RowTiles::kColumns, column);
    for (int c = 0; c < RowTiles::kColumns && column != INT_MAX; ++c, column = lowest()) {
      chunk[RowTiles::word(c)] = column;
      for (int r = 0; r < RowTiles::kRows; ++r) {
        if (at[r] == end[r] || columns[at[r]] != column) continue;
        auto& bits = reinterpret_cast<uint32_t&>(chunk[RowTiles::kColumns + r % 8]);
        bits |= 1u << (r / 8 * 16 + c);
        ++at[r];
      }
    }
  }
}

Tensor row_tiles_cpu(at::TensorList tensors) {
  const PatternTensors pattern("row_tiles", "pattern", tensors, PatternTensors::kRows);
  const int64_t rows = pattern.rows();
  const int longest = cuda::longest_short_row(pattern.entries(), rows);
  std::vector<int32_t> header(RowTiles::header(rows), 0), chunks;
  for (int64_t tile = 0; tile < RowTiles::count(rows); ++tile) {
    append_tile(chunks, pattern.offsets.const_data_ptr<int64_t>(), pattern.columns.const_data_ptr<int32_t>(),
                tile * RowTiles::kRows, rows, longest);
    header[tile + 1] = static_cast<int32_t>(chunks.size() / RowTiles::kChunkWords);
  }
  header.insert(header.end(), chunks.begin(), chunks.end());
  return at::tensor(header, at::kInt);
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CPU, m) {
  m.impl("row_tiles", row_tiles_cpu);
}

}  // namespace topomask::ops::row_tiles

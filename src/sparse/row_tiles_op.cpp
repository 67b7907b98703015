#include <ATen/ATen.h>
#include <torch/library.h>

#include <climits>

#include "core/cuda/long_rows.h"
#include "sparse/op_arguments.h"
#include "sparse/row_tiles.h"
#include "topomask/sparse.h"

// The tiles of a pattern as an operator, its implementation for the CPU (which tests compare with; no kernel there asks
// for tiles), and a pattern's own.

namespace topomask {

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

Tensor row_tiles_cpu(const Tensor& offsets, const Tensor& columns) {
  const PatternTensors pattern("row_tiles", offsets, columns);
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

Tensor row_tiles(const Tensor& offsets, const Tensor& columns) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("topomask::row_tiles", "").typed<decltype(row_tiles_cpu)>();
  return op.call(offsets, columns);
}

}  // namespace

const SparsePattern::Tiles& SparsePattern::tiles() const {
  std::call_once(tiles_once_, [this] {
    const Transposed& t = transposed();
    const c10::InferenceMode ordinary(false);  // what is kept may later be saved for a backward pass
    tiles_ = {row_tiles(offsets_, columns_), row_tiles(t.offsets, t.columns)};
  });
  return tiles_;
}

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.set_python_module("topomask.fake");  // sizes depend on data: the fake kernel is there
  m.def("row_tiles(Tensor offsets, Tensor columns) -> Tensor");
}

TORCH_LIBRARY_IMPL(topomask, CPU, m) {
  m.impl("row_tiles", row_tiles_cpu);
}

}  // namespace topomask

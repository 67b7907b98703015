#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "ops/fused_attention/cpu_kernel.h"
#include "ops/fused_attention/op.h"

// Rows of M on the CPU, and sums of the gradient of M. A kind of mask says how a part of a row is filled in (`fill`)
// and how one is added to the gradient of its values (`add`).

namespace topomask::ops::fused_attention {

/// Rows and columns of a tile: the scores, their gradients and a tile of M fit the second cache of a core. The scores
/// alone fit with twice as many rows, which makes matrix products faster.
inline constexpr int64_t kTileRows = 128, kMostTileRows = 256, kTileColumns = 256;

struct TileRange {
  int64_t row, rows, column, columns;
};

/// What all threads share: the arrays of the mask as plain pointers. Offsets are kept backwards, so that they ascend
/// with the columns.
template <class T>
struct TileSource {
  TileSource(const MaskTiles& tiles, int64_t all_nodes)
      : kind(tiles.kind), globals(tiles.globals), nodes(all_nodes - tiles.globals) {
    if (!has_values(kind)) return;
    heads = tiles.values.size(0);
    length = tiles.values.size(-1);
    values = kind == TileKind::offsets ? tiles.values.flip(1).contiguous() : tiles.values.contiguous();
    if (kind == TileKind::factors) {
      right = tiles.right.contiguous();
      shift = tiles.shift;
    }
    if (kind == TileKind::places) {
      index = tiles.index.contiguous();
      places = index.const_data_ptr<int16_t>();
    }
    if (kind != TileKind::offsets) return;
    index = tiles.index.contiguous();
    shift = length - 1 - tiles.shift;
    // Where the codes stop counting up by one after each node.
    const int32_t* code = index.const_data_ptr<int32_t>();
    run_end.resize(nodes);
    int64_t runs = 0;
    for (int64_t j = nodes - 1; j >= 0; --j) {
      const bool goes_on = j + 1 < nodes && code[j + 1] == code[j] + 1;
      run_end[j] = static_cast<int32_t>(goes_on ? run_end[j + 1] : j + 1);
      runs += goes_on ? 0 : 1;
    }
    constexpr int64_t kLongRun = 32;  // shorter ones are faster copied side by side
    has_long_runs = nodes >= kLongRun * runs;
  }

  /// f(column, place, count): columns from `column` on, `count` of them below `end`, are values from `place` on.
  template <class F>
  void for_runs(int64_t row, int64_t column, int64_t end, const F& f) const {
    const int32_t* code = index.const_data_ptr<int32_t>();
    while (column < end) {
      const int64_t count = std::min<int64_t>(run_end[column], end) - column;
      f(column, code[column] - code[row] + shift, count);
      column += count;
    }
  }
  int64_t place(int64_t row, int64_t column) const {
    if (kind == TileKind::hamming) return std::popcount(static_cast<uint64_t>(row ^ column));
    const int64_t place = places[row * nodes + column];
    return place < 0 || place >= length ? length - 1 : place;
  }

  TileKind kind;
  int64_t globals, nodes, heads = 1, length = 0, shift = 0;
  at::Tensor values, right, index;
  const int16_t* places = nullptr;
  std::vector<int32_t> run_end;
  bool has_long_runs = false;
};

/// Rows of one head of M, for one thread.
template <class T>
class MaskRows {
 public:
  explicit MaskRows(const TileSource<T>& source) : source_(source), row_(kTileColumns), runs_(1) {
    if (source.kind == TileKind::factors) tile_ = at::empty({kMostTileRows, kTileColumns}, source.values.options());
  }

  void enter(int64_t head, const TileRange& range) {
    range_ = range;
    head_ = source_.heads == 1 ? 0 : head;
    if (source_.kind != TileKind::factors) return;
    const int64_t g = source_.globals, row = std::max(range.row, g), column = std::max(range.column, g);
    const int64_t rows = range.row + range.rows - row, columns = range.column + range.columns - column;
    if (rows <= 0 || columns <= 0) return;
    at::Tensor to = tile_.narrow(0, row - range.row, rows).narrow(1, column - range.column, columns);
    at::mm_out(to, source_.values[head_].narrow(0, row - g, rows),
               source_.right[head_].narrow(0, column - g, columns).t());
    const int64_t first = std::max(row, column), last = std::min(row + rows, column + columns);
    if (source_.shift != 0 && first < last) {
      tile_.narrow(0, first - range.row, last - first)
          .narrow(1, first - range.column, last - first)
          .diagonal()
          .add_(source_.shift);
    }
  }

  /// M_ij for i = range.row + at and the columns of the range.
  const MaskRun<T>* row(int64_t at) {
    const int64_t i = range_.row + at - source_.globals, column = range_.column - source_.globals;
    if (source_.has_long_runs && i >= 0 && column >= 0) {
      runs_.clear();
      const T* from = values();
      source_.for_runs(i, column, column + range_.columns, [&](int64_t, int64_t place, int64_t count) {
        runs_.push_back({from + place, count});
      });
    } else {
      runs_.assign(1, {whole_row(at), range_.columns});
    }
    return runs_.data();
  }

 private:
  const T* values() const { return source_.values.template const_data_ptr<T>() + head_ * source_.values.stride(0); }

  /// All of a row in one piece.
  const T* whole_row(int64_t at) {
    const int64_t g = source_.globals, i = range_.row + at - g;
    const int64_t ones = i < 0 ? range_.columns : std::clamp<int64_t>(g - range_.column, 0, range_.columns);
    const int64_t column = range_.column - g, end = column + range_.columns;
    if (ones == 0) {
      if (source_.kind == TileKind::matrix) {
        fetch_ahead(at, column);
        return values() + i * source_.nodes + column;
      }
      if (source_.kind == TileKind::factors) return tile_.template const_data_ptr<T>() + at * kTileColumns;
    }
    std::fill_n(row_.data(), ones, T(1));
    if (ones < range_.columns) fill(i, column + ones, end, at, row_.data() + ones);
    return row_.data();
  }

  /// Rows of a matrix are too far apart for the processor to see them coming.
  void fetch_ahead(int64_t at, int64_t column) const {
    constexpr int64_t kAhead = 4, kLine = 64 / sizeof(T);
    if (at + kAhead >= range_.rows) return;
    const T* row = values() + (range_.row + at + kAhead - source_.globals) * source_.nodes + column;
    for (int64_t j = 0; j < range_.columns; j += kLine) __builtin_prefetch(row + j);
  }

  void fill(int64_t i, int64_t column, int64_t end, int64_t at, T* to) const {
    switch (source_.kind) {
      case TileKind::ones:
        std::fill(to, to + (end - column), T(1));
        break;
      case TileKind::causal: {
        const int64_t seen = std::clamp<int64_t>(i + 1 - column, 0, end - column);
        std::fill(to, to + seen, T(1));
        std::fill(to + seen, to + (end - column), T(0));
        break;
      }
      case TileKind::offsets: {
        const T* from = values();
        source_.for_runs(i, column, end, [&](int64_t j, int64_t place, int64_t count) {
          std::copy_n(from + place, count, to + (j - column));
        });
        break;
      }
      case TileKind::matrix:
        std::copy(values() + i * source_.nodes + column, values() + i * source_.nodes + end, to);
        break;
      case TileKind::places:
      case TileKind::hamming: {
        const T* from = values();
        for (int64_t j = column; j < end; ++j) to[j - column] = from[source_.place(i, j)];
        break;
      }
      case TileKind::factors:
        std::copy_n(tile_.template const_data_ptr<T>() + at * kTileColumns + (column + source_.globals - range_.column),
                    end - column, to);
        break;
    }
  }

  const TileSource<T>& source_;
  std::vector<T> row_;
  std::vector<MaskRun<T>> runs_;
  at::Tensor tile_;
  TileRange range_{};
  int64_t head_ = 0;
};

/// The gradient of the values of one head of M, as far as one part of its rows goes.
template <class T>
class MaskSums {
 public:
  /// `values` and `right` are zero, of the shape of one head's; of a matrix the gradient itself.
  MaskSums(const TileSource<T>& source, at::Tensor values, at::Tensor right)
      : source_(source), values_(std::move(values)), right_(std::move(right)) {
    const bool table = source.kind == TileKind::places || source.kind == TileKind::hamming;
    if (table) table_.assign(source.length, 0);
  }

  /// tile: gradient of M over the range, rows kTileColumns apart.
  void add(int64_t head, const TileRange& range, const at::Tensor& tile) {
    const int64_t g = source_.globals, row = std::max(range.row, g), column = std::max(range.column, g);
    const int64_t rows = range.row + range.rows - row, columns = range.column + range.columns - column;
    if (rows <= 0 || columns <= 0) return;
    if (source_.kind == TileKind::factors) {
      const int64_t h = source_.heads == 1 ? 0 : head;
      const at::Tensor part = tile.narrow(0, row - range.row, rows).narrow(1, column - range.column, columns);
      at::Tensor left = values_.narrow(0, row - g, rows), right = right_.narrow(0, column - g, columns);
      left.addmm_(part, source_.right[h].narrow(0, column - g, columns));
      right.addmm_(part.t(), source_.values[h].narrow(0, row - g, rows));
      return;
    }
    const T* first = tile.const_data_ptr<T>() + (row - range.row) * kTileColumns + (column - range.column);
    for (int64_t i = 0; i < rows; ++i) add_row(row - g + i, column - g, column - g + columns, first + i * kTileColumns);
  }

  /// Sums that were kept in double.
  void finish() {
    for (size_t k = 0; k < table_.size(); ++k) values_.mutable_data_ptr<T>()[k] = static_cast<T>(table_[k]);
  }

 private:
  void add_row(int64_t i, int64_t column, int64_t end, const T* from) {
    if (!table_.empty()) {
      for (int64_t j = column; j < end; ++j) table_[source_.place(i, j)] += from[j - column];
      return;
    }
    T* to = values_.mutable_data_ptr<T>();
    const auto add = [&](int64_t j, int64_t place, int64_t count) {
      for (int64_t n = 0; n < count; ++n) to[place + n] += from[j - column + n];
    };
    if (source_.kind == TileKind::matrix) return add(column, i * source_.nodes + column, end - column);
    source_.for_runs(i, column, end, add);
  }

  const TileSource<T>& source_;
  at::Tensor values_, right_;
  std::vector<double> table_;
};

}  // namespace topomask::ops::fused_attention

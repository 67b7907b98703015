#include "masks/toeplitz/tiles.h"

#include <ATen/ATen.h>

#include "core/library_tasks.h"
#include "core/ordered_sums.h"
#include "masks/toeplitz/windows.h"

namespace topomask {
namespace {

/// Rows of the reversed mask that share all coordinates before `split`, take a range of the one at `split`, and all
/// values of the ones after it; and the columns they reach.
struct Tile {
  std::vector<int64_t> leading;   // i'_s for s < split
  int64_t start, count;           // of i'_split
  int64_t first_row, rows;        // in the reversed row-major order
  int64_t first_slab, slabs;      // columns: values of j₁
  int64_t first_column, columns;  // the same in row-major order

  /// [rows, columns] in memory for any tile: freshly allocated, a matrix of this size comes as new pages.
  at::Tensor in(const at::Tensor& room) const { return room.narrow(0, 0, rows * columns).view({rows, columns}); }
};

class Tiling {
 public:
  Tiling(const std::vector<int64_t>& dims, Reach reach) : dims_(dims), reach_(reach) {
    // A tile has as many rows as fit a core's cache together with it, within what keeps a matrix product efficient.
    constexpr int64_t kTileElements = 1 << 19;
    nodes_ = c10::multiply_integers(dims_);
    const int64_t rows = std::clamp<int64_t>(kTileElements / std::max<int64_t>(1, nodes_), 16, 128);
    split_ = static_cast<int64_t>(dims_.size()) - 1;
    while (split_ > 0 && trailing_ * dims_[split_] <= rows) trailing_ *= dims_[split_--];
    step_ = std::clamp<int64_t>(rows / trailing_, 1, dims_[split_]);
    chunks_ = (dims_[split_] + step_ - 1) / step_;
  }

  int64_t count() const { return nodes_ / (dims_[split_] * trailing_) * chunks_; }
  /// How many tiles are worth a thread.
  int64_t grain() const { return std::max<int64_t>(1, 4096 / (step_ * trailing_ * nodes_)); }
  at::Tensor room(const at::TensorOptions& options) const { return at::empty({step_ * trailing_ * nodes_}, options); }
  int64_t split() const { return split_; }
  int64_t step() const { return step_; }

  Tile tile(int64_t index) const {
    Tile tile;
    tile.start = index % chunks_ * step_;
    tile.count = std::min(step_, dims_[split_] - tile.start);
    int64_t block = index / chunks_;
    tile.first_row = (block * dims_[split_] + tile.start) * trailing_;
    tile.rows = tile.count * trailing_;
    tile.leading.resize(split_);
    for (int64_t axis = split_ - 1; axis >= 0; --axis) {
      tile.leading[axis] = block % dims_[axis];
      block /= dims_[axis];
    }
    const int64_t highest = dims_[0] - 1 - (split_ == 0 ? tile.start : tile.leading[0]);  // i₁, the right way round
    const int64_t lowest = split_ == 0 ? highest - tile.count + 1 : highest, slab = nodes_ / dims_[0];
    tile.first_slab = reach_ == Reach::above ? lowest : 0;
    tile.slabs = (reach_ == Reach::below ? highest + 1 : dims_[0]) - tile.first_slab;
    tile.first_column = tile.first_slab * slab;
    tile.columns = tile.slabs * slab;
    return tile;
  }

  /// The part of a head's reversed windows [n₁, …, n_d, n₁, …, n_d] that a tile is, [rows…, columns…].
  at::Tensor window(at::Tensor windows, const Tile& tile) const {
    for (int64_t place : tile.leading) windows = windows.select(0, place);
    const auto first_column_axis = static_cast<int64_t>(dims_.size()) - split_;
    return windows.narrow(0, tile.start, tile.count).narrow(first_column_axis, tile.first_slab, tile.slabs);
  }

  /// [rows, columns] of a tile with its axes apart, as `window` has them.
  at::Tensor with_axes(const at::Tensor& tile_matrix, const Tile& tile) const {
    std::vector<int64_t> shape{tile.count};
    shape.insert(shape.end(), dims_.begin() + split_ + 1, dims_.end());
    shape.push_back(tile.slabs);
    shape.insert(shape.end(), dims_.begin() + 1, dims_.end());
    return tile_matrix.view(shape);
  }

 private:
  std::vector<int64_t> dims_;
  Reach reach_;
  int64_t nodes_ = 1, split_ = 0, trailing_ = 1, step_ = 1, chunks_ = 1;
};

/// The right-hand side of many products. Attention appends a column of ones to the values, and a matrix product of 65
/// columns takes as long as one of 80: a single column after whole vectors is kept apart.
class RightSide {
 public:
  explicit RightSide(const at::Tensor& columns) : columns_(columns) {  // [slices, N, d]
    const int64_t width = columns.size(-1);
    if (width > 1 && width % 16 == 1) last_ = columns.select(-1, width - 1).contiguous();
  }

  /// out = a·(rows first … first+count−1 of a slice).
  void product(const at::Tensor& a, int64_t slice, int64_t first, int64_t count, at::Tensor out) const {
    const at::Tensor rows = columns_[slice].narrow(0, first, count);
    if (!last_.defined()) {
      at::mm_out(out, a, rows);
      return;
    }
    const int64_t most = out.size(1) - 1;
    at::Tensor block = out.narrow(1, 0, most), last = out.select(1, most);
    at::mm_out(block, a, rows.narrow(1, 0, most));
    at::mv_out(last, a, last_[slice].narrow(0, first, count));
  }

 private:
  at::Tensor columns_, last_;
};

/// Sums over tiles of equal shape, kept at i'_s + j_s for the axes up to the split: a tile is added as it lies. What is
/// left, i'_s + j_s inside a tile, is summed once, at the end.
class OffsetSums {
 public:
  OffsetSums(const Tiling& tiling, const std::vector<int64_t>& dims, const at::TensorOptions& options)
      : tiling_(tiling), dims_(dims) {
    std::vector<int64_t> shape{tiling.step()};
    shape.insert(shape.end(), dims.begin() + tiling.split() + 1, dims.end());
    for (int64_t axis = 0; axis < std::ssize(dims); ++axis) {
      shape.push_back(axis <= tiling.split() ? 2 * dims[axis] - 1 : dims[axis]);
    }
    sums_ = at::zeros(shape, options);
  }

  void add(const at::Tensor& tile_matrix, const Tile& tile) {
    at::Tensor target = sums_.narrow(0, 0, tile.count);
    const int64_t first_axis = std::ssize(dims_) - tiling_.split();
    for (int64_t axis = 0; axis <= tiling_.split(); ++axis) {
      const int64_t place = axis < tiling_.split() ? tile.leading[axis] : tile.start;
      target = axis == 0 ? target.narrow(first_axis, place + tile.first_slab, tile.slabs)
                         : target.narrow(first_axis + axis, place, dims_[axis]);
    }
    target.add_(tiling_.with_axes(tile_matrix, tile));
  }

  void add(const OffsetSums& other) { sums_.add_(other.sums_); }

  /// Over offsets in the order of g, [2n₁−1, …, 2n_d−1].
  at::Tensor total() const {
    const int64_t axes = std::ssize(dims_), split = tiling_.split();
    at::Tensor sums = window_sums(sums_, axes - split, axes);
    sums = sums.narrow(0, 0, 2 * dims_[split] - 1);
    std::vector<int64_t> order, all;
    for (int64_t axis = 0; axis < axes; ++axis) {
      order.push_back(axis < split ? axes - split + axis : axis - split);
      all.push_back(axis);
    }
    return sums.permute(order).flip(all);
  }

 private:
  const Tiling& tiling_;
  std::vector<int64_t> dims_;
  at::Tensor sums_;
};

}  // namespace

at::Tensor tiled_product(const at::Tensor& g, const std::vector<int64_t>& dims, Reach reach, const at::Tensor& a,
                         const at::Tensor& b, const at::Tensor& c) {
  const Tiling tiling(dims, reach);
  const at::Tensor windows = reversed_windows(g, dims);
  const at::Tensor rows = a.flip(2).flatten(0, 1), keys = b.flatten(0, 1);
  const RightSide values(c.flatten(0, 1));
  const at::Tensor out = at::empty({rows.size(0), c.size(2), c.size(3)}, c.options());
  for_library_tasks(rows.size(0) * tiling.count(), tiling.grain(), [&](int64_t begin, int64_t end) {
    const at::Tensor memory = tiling.room(a.options());
    for (int64_t task = begin; task < end; ++task) {
      const int64_t slice = task / tiling.count();
      const Tile tile = tiling.tile(task % tiling.count());
      at::Tensor room = tile.in(memory);
      at::mm_out(room, rows[slice].narrow(0, tile.first_row, tile.rows),
                 keys[slice].narrow(0, tile.first_column, tile.columns).t());
      tiling.with_axes(room, tile).mul_(tiling.window(windows[slice % g.size(0)], tile));
      values.product(room, slice, tile.first_column, tile.columns, out[slice].narrow(0, tile.first_row, tile.rows));
    }
  });
  return out.view_as(c).flip(2);
}

TiledGradients tiled_backward(const at::Tensor& g, const std::vector<int64_t>& dims, Reach reach, const at::Tensor& a,
                              const at::Tensor& b, const at::Tensor& c, const at::Tensor& grad, bool want_offsets) {
  const int64_t heads = a.size(1), slices = a.size(0) * heads;
  const Tiling tiling(dims, reach);
  const at::Tensor windows = reversed_windows(g, dims);
  const at::Tensor rows = a.flip(2).flatten(0, 1), grads = grad.flip(2).flatten(0, 1);
  const at::Tensor keys = b.flatten(0, 1), values = c.flatten(0, 1);
  // Sums over tiles in as many parts per head whatever the number of threads, each in order: one result.
  const int64_t parts = std::min(tiling.count(), (7 + heads) / heads);
  const at::Tensor da = at::empty_like(rows);
  const at::Tensor db = at::zeros({parts, slices, b.size(2), b.size(3)}, b.options());
  const at::Tensor dc = at::zeros({parts, slices, c.size(2), c.size(3)}, c.options());
  std::vector<OffsetSums> sums;
  for (int64_t i = 0; want_offsets && i < heads * parts; ++i) sums.emplace_back(tiling, dims, a.options());
  for_library_tasks(heads * parts, tiling.grain(), [&](int64_t begin, int64_t end) {
    const at::Tensor rooms[] = {tiling.room(a.options()), tiling.room(a.options()), tiling.room(a.options())};
    for (int64_t task = begin; task < end; ++task) {
      const int64_t head = task / parts, part = task % parts;
      for (int64_t slice = head; slice < slices; slice += heads) {
        for (int64_t t = part; t < tiling.count(); t += parts) {
          const Tile tile = tiling.tile(t);
          const auto of_rows = [&](const at::Tensor& x) { return x[slice].narrow(0, tile.first_row, tile.rows); };
          const auto of_columns = [&](const at::Tensor& x) {
            return x[slice].narrow(0, tile.first_column, tile.columns);
          };
          const at::Tensor window = tiling.window(windows[head], tile);
          at::Tensor weights = tile.in(rooms[0]), slopes = tile.in(rooms[1]), products = tile.in(rooms[2]);
          at::mm_out(weights, of_rows(rows), of_columns(keys).t());    // A Bᵀ
          at::mm_out(slopes, of_rows(grads), of_columns(values).t());  // G Cᵀ
          if (want_offsets) sums[task].add(at::mul_out(products, weights, slopes), tile);
          tiling.with_axes(weights, tile).mul_(window);
          tiling.with_axes(slopes, tile).mul_(window);
          at::Tensor target = of_rows(da);
          at::mm_out(target, slopes, of_columns(keys));
          of_columns(db[part]).addmm_(slopes.t(), of_rows(rows));
          of_columns(dc[part]).addmm_(weights.t(), of_rows(grads));
        }
      }
    }
  });
  TiledGradients result{da.view_as(a).flip(2), first_sums(db).view_as(b), first_sums(dc).view_as(c), {}};
  if (!want_offsets) return result;
  std::vector<at::Tensor> totals;
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t part = 1; part < parts; ++part) sums[head * parts].add(sums[head * parts + part]);
    totals.push_back(sums[head * parts].total());
  }
  result.offsets = at::stack(totals);
  return result;
}

}  // namespace topomask

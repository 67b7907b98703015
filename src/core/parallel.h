#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>

namespace topomask {

/// The first row of a CSR pattern at or after `position` in 0 … entries + rows, where row i starts at offsets[i] + i:
/// a row weighs its entries, and one more so that empty rows count.
inline int64_t row_at(const int64_t* offsets, int64_t rows, int64_t position) {
  int64_t low = 0, high = rows;
  while (low < high) {
    const int64_t middle = std::midpoint(low, high);
    if (offsets[middle] + middle < position) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/// Calls f(slice, begin, end) from several threads so that every row of every slice is visited once, threads are loaded
/// by entries and not by rows, and a task is worth starting. `entry_work` is in multiply-adds.
template <class F>
void for_row_ranges(const int64_t* offsets, int64_t rows, int64_t slices, int64_t entry_work, const F& f) {
  if (rows == 0) return;
  constexpr int64_t kTaskWork = 32768;
  const int64_t weight = offsets[rows] + rows;
  const int64_t grain = std::max<int64_t>(1, kTaskWork / std::max<int64_t>(1, entry_work));
  at::parallel_for(0, slices * weight, grain, [&](int64_t begin, int64_t end) {
    for (int64_t slice = begin / weight; slice * weight < end; ++slice) {
      const int64_t first = row_at(offsets, rows, std::max<int64_t>(0, begin - slice * weight));
      const int64_t last = row_at(offsets, rows, std::min(weight, end - slice * weight));
      if (first < last) f(slice, first, last);
    }
  });
}

/// Room for `count` arrays of one scalar per entry of the longest row in a range, or of `least` entries, each with the
/// padding the row primitives ask.
template <class T>
class RowBuffers {
 public:
  RowBuffers(const int64_t* offsets, int64_t begin, int64_t end, int count, int64_t least = 0) {
    int64_t longest = least;
    for (int64_t i = begin; i < end; ++i) longest = std::max(longest, offsets[i + 1] - offsets[i]);
    size_ = longest / kPadding * kPadding + kPadding;
    data_ = std::make_unique_for_overwrite<T[]>(size_ * count);
  }
  T* operator[](int which) { return data_.get() + which * size_; }

 private:
  static constexpr int64_t kPadding = 16;
  int64_t size_ = 0;
  std::unique_ptr<T[]> data_;
};

}  // namespace topomask

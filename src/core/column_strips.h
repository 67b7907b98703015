#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>

#include "core/recycled.h"
#include "core/simd.h"

namespace topomask {

/// Some columns of one (batch, head) slice as contiguous rows [N, width], width a multiple of kWidthUnit.
template <class T>
struct ColumnStrip {
  int64_t slice;
  int64_t width;
  const T* x;
  T* y;        ///< to be written
  T* scratch;  ///< as many arrays of this size as asked for, uninitialised
};

/// For an operation that passes over all nodes many times, separately for each column: calls f(strip) for strips of
/// columns of x [B, H, N, C] and keeps what f leaves in strip.y as the same columns of y; x and y are contiguous. A
/// strip is wide enough to be worth its index arithmetic and narrow enough that arrays of moderate N stay in a cache.
/// Strips are done in parallel; where there are fewer of them than threads, one after the other, and then a
/// parallel_for inside f is parallel.
template <class T, class F>
void for_column_strips(const at::Tensor& x, const at::Tensor& y, int64_t buffers, const F& f) {
  if (x.numel() == 0) return;
  constexpr int64_t kWidest = 128;
  const int64_t nodes = x.size(2), columns = x.size(3), slices = x.size(0) * x.size(1);
  const int64_t per_slice = (columns + kWidest - 1) / kWidest;
  const int64_t units = (columns + per_slice * kWidthUnit - 1) / (per_slice * kWidthUnit), width = units * kWidthUnit;
  const int64_t elements = nodes * width;
  const bool packed = columns != width;  // else a slice is a strip already
  const T* source = x.const_data_ptr<T>();
  T* target = y.mutable_data_ptr<T>();
  const auto run = [&](int64_t begin, int64_t end) {
    const at::Tensor room = recycled_empty({(buffers + (packed ? 2 : 0)) * elements}, x.options());
    T *scratch = room.mutable_data_ptr<T>(), *in = scratch + buffers * elements, *out = in + elements;
    for (int64_t s = begin; s < end; ++s) {
      const int64_t slice = s / per_slice, first = s % per_slice * width, count = std::min(width, columns - first);
      const int64_t start = slice * nodes * columns + first;
      if (!packed) {
        f(ColumnStrip<T>{slice, width, source + start, target + start, scratch});
        continue;
      }
      for (int64_t i = 0; i < nodes; ++i) {
        std::fill_n(std::copy_n(source + start + i * columns, count, in + i * width), width - count, T{0});
      }
      f(ColumnStrip<T>{slice, width, in, out, scratch});
      for (int64_t i = 0; i < nodes; ++i) std::copy_n(out + i * width, count, target + start + i * columns);
    }
  };
  if (slices * per_slice >= at::get_num_threads()) {
    at::parallel_for(0, slices * per_slice, std::max<int64_t>(1, 8192 / elements), run);
  } else {
    run(0, slices * per_slice);
  }
}

}  // namespace topomask

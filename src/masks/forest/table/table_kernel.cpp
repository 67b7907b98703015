#include "masks/forest/table/table_kernel.h"

#include "masks/forest/structure/row_dot.h"

namespace topomask {
namespace {

template <class T>
TOPOMASK_INLINE void clear(T* rows, int64_t count) {
  for (int64_t i = 0; i < count; ++i) rows[i] = 0;
}

template <class T>
TOPOMASK_INLINE void add_row(T* to, const T* from, int64_t width) {
#pragma GCC ivdep
  for (int64_t c = 0; c < width; ++c) to[c] += from[c];
}

template <class S>
TOPOMASK_INLINE void bin_sums_body(const TableArgs<typename S::Scalar>& args, int64_t begin, int64_t end) {
  using T = typename S::Scalar;
  const int64_t pitch = args.pitch;
  for (int64_t i = begin; i < end; ++i) {
    const Component& component = args.components[i];
    const int64_t first = args.first[i], bins = args.first[i + 1] - first;
    T* totals = args.sums + bins * pitch;
    clear(args.sums, (bins + args.total_first[i + 1] - args.total_first[i]) * pitch);
    const int32_t* bin = args.bin + component.entry;
    const T* x = args.x + component.first * args.stride;
    for (int64_t k = 0; k < component.size; ++k) add_row(args.sums + bin[k] * pitch, x + k * args.stride, args.width);
    for (int64_t b = 0; b < bins; ++b) add_row(totals + args.total[first + b] * pitch, args.sums + b * pitch, pitch);
  }
}

/// Bins that bin s meets within the table: the deepest come last.
template <class Args>
TOPOMASK_INLINE int64_t within_table(const Args& args, int64_t s) {
  int64_t count = args.count;
  while (count > 0 && int64_t{args.depth[s]} + args.depth[count - 1] >= args.entries) --count;
  return count;
}

/// Some bins s at once, some vectors of columns at once: all sums stay in registers over the bins t < count.
template <class S, int kBins, int kVectors>
TOPOMASK_INLINE void hankel_tile(const HankelArgs<typename S::Scalar>& args, int64_t s, int64_t column, int64_t count) {
  using Vector = typename S::Vector;
  Vector sums[kBins][kVectors] = {};
  for (int64_t t = 0; t < count; ++t) {
    const auto* table = args.table + args.depth[t];
    const auto* row = args.sums + t * args.pitch + column;
    for (int b = 0; b < kBins; ++b) {
      for (int v = 0; v < kVectors; ++v) sums[b][v] += table[args.depth[s + b]] * S::load(row + v * S::kLanes);
    }
  }
  for (int b = 0; b < kBins; ++b) {
    for (int v = 0; v < kVectors; ++v)
      S::store(args.products + (s + b) * args.pitch + column + v * S::kLanes, sums[b][v]);
  }
}

template <class S, int kBins>
TOPOMASK_INLINE void hankel_tiles(const HankelArgs<typename S::Scalar>& args, int64_t s, int64_t count) {
  int64_t column = 0;
  for (; column + 2 * S::kLanes <= args.pitch; column += 2 * S::kLanes)
    hankel_tile<S, kBins, 2>(args, s, column, count);
  for (; column < args.pitch; column += S::kLanes) hankel_tile<S, kBins, 1>(args, s, column, count);
}

template <class S>
TOPOMASK_INLINE void hankel_rows_body(const HankelArgs<typename S::Scalar>& args, int64_t begin, int64_t end) {
  int64_t s = begin;
  for (; s + kHankelBins <= end; s += kHankelBins) {
    // What all four meet, then what the shallower ones meet in addition.
    const int64_t common = within_table(args, s + kHankelBins - 1);
    hankel_tiles<S, kHankelBins>(args, s, common);
    for (int64_t b = s; b < s + kHankelBins; ++b) {
      const int64_t count = within_table(args, b);
      for (int64_t t = common; t < count; ++t) {
        const auto f = args.table[args.depth[b] + args.depth[t]];
        const auto* from = args.sums + t * args.pitch;
        auto* to = args.products + b * args.pitch;
#pragma GCC ivdep
        for (int64_t c = 0; c < args.pitch; ++c) to[c] += f * from[c];
      }
    }
  }
  for (; s < end; ++s) hankel_tiles<S, 1>(args, s, within_table(args, s));
}

template <class S>
TOPOMASK_INLINE void spread_products_body(const TableArgs<typename S::Scalar>& args, int64_t begin, int64_t end) {
  using T = typename S::Scalar;
  const int64_t pitch = args.pitch;
  for (int64_t i = begin; i < end; ++i) {
    const Component& component = args.components[i];
    const int64_t first = args.first[i], bins = args.first[i + 1] - first;
    const T* totals = args.products + bins * pitch;
    for (int64_t b = 0; b < bins; ++b) {
      T* own = args.products + b * pitch;
      const T* all = totals + args.total[first + b] * pitch;
#pragma GCC ivdep
      for (int64_t c = 0; c < pitch; ++c) own[c] = all[c] - own[c];
    }
    const int32_t* bin = args.bin + component.entry;
    T* y = args.y + component.first * args.stride;
    for (int64_t k = 0; k < component.size; ++k) {
      add_row(y + k * args.stride, args.products + bin[k] * pitch, args.width);
    }
  }
}

template <class S>
TOPOMASK_INLINE void table_components_body(const TableArgs<typename S::Scalar>& args, int64_t begin, int64_t end) {
  using T = typename S::Scalar;
  const int64_t pitch = args.pitch;
  for (int64_t i = begin; i < end; ++i) {
    bin_sums_body<S>(args, i, i + 1);
    const Component& component = args.components[i];
    const int64_t first = args.first[i], bins = args.first[i + 1] - first;
    const int64_t totals = args.total_first[i + 1] - args.total_first[i];
    hankel_rows_body<S>(HankelArgs<T>{args.total_depth + args.total_first[i], totals, args.table, args.entries,
                                      args.sums + bins * pitch, args.products + bins * pitch, pitch},
                        0, totals);
    for (int64_t g = component.groups_begin; g < component.groups_begin + component.groups; ++g) {
      const int64_t own = args.group_first[g], count = args.group_first[g + 1] - own;
      hankel_rows_body<S>(HankelArgs<T>{args.depth + first + own, count, args.table, args.entries,
                                        args.sums + own * pitch, args.products + own * pitch, pitch},
                          0, count);
    }
    spread_products_body<S>(args, i, i + 1);
  }
}

template <class S>
TOPOMASK_INLINE void hankel_gradient_body(const HankelGradientArgs<typename S::Scalar>& args, int64_t begin,
                                          int64_t end) {
  for (int64_t s = begin; s < end; ++s) {
    const int64_t count = within_table(args, s);
    for (int64_t t = 0; t < count; t += 4) {
      const auto dots =
          four_dots<S>(args.g + s * args.pitch, args.x + t * args.pitch, args.pitch, count - t, args.pitch);
      for (int64_t k = 0; k < 4 && t + k < count; ++k) {
        args.gradient[args.depth[s] + args.depth[t + k]] += args.sign * dots[k];
      }
    }
  }
}

}  // namespace

TOPOMASK_SIMD_KERNEL(bin_sums, TableArgs)
TOPOMASK_SIMD_KERNEL(spread_products, TableArgs)
TOPOMASK_SIMD_KERNEL(table_components, TableArgs)
TOPOMASK_SIMD_KERNEL(hankel_rows, HankelArgs)
TOPOMASK_SIMD_KERNEL(hankel_gradient, HankelGradientArgs)

}  // namespace topomask

#pragma once

#include "core/simd.h"

// The two inner loops of every kernel over CSR rows, on one row of `count` entries. Widths are multiples of kWidthUnit.

namespace topomask::ops {

/// Asks for the row of x that the last entry of a CSR row some rows ahead of `row` names. Columns ascend, so where
/// nodes are numbered along the graph this is the one neighbour no earlier row has met: the others are in a cache
/// already.
template <class T>
TOPOMASK_INLINE void prefetch_ahead(const int64_t* offsets, const int32_t* columns, int64_t row, int64_t end,
                                    const T* x, int64_t width) {
  constexpr int64_t kRowsAhead = 16, kLine = 64;
  if (row + kRowsAhead >= end || offsets[row + kRowsAhead + 1] == 0) return;
  const auto* line = reinterpret_cast<const char*>(x + columns[offsets[row + kRowsAhead + 1] - 1] * width);
  for (int64_t b = 0; b < width * static_cast<int64_t>(sizeof(T)); b += kLine) __builtin_prefetch(line + b);
}

template <class S, int kVectors>
TOPOMASK_INLINE void dot_quads(const typename S::Scalar* a, const typename S::Scalar* b, int64_t width,
                               const int32_t* columns, int64_t count, typename S::Scalar* dots) {
  using Vector = typename S::Vector;
  const int64_t vectors = kVectors > 0 ? kVectors : width / S::kLanes;
  const int64_t last = count - 1;
  Vector held[kVectors > 0 ? kVectors : 1];
  for (int t = 0; t < kVectors; ++t) held[t] = S::load(a + t * S::kLanes);
  for (int64_t e = 0; e < count; e += 4) {
    const auto* b0 = b + columns[e] * width;
    const auto* b1 = b + columns[e + 1 < last ? e + 1 : last] * width;
    const auto* b2 = b + columns[e + 2 < last ? e + 2 : last] * width;
    const auto* b3 = b + columns[e + 3 < last ? e + 3 : last] * width;
    Vector sum0{}, sum1{}, sum2{}, sum3{};
    for (int64_t t = 0; t < vectors; ++t) {
      const Vector left = kVectors > 0 ? held[t] : S::load(a + t * S::kLanes);
      sum0 += left * S::load(b0 + t * S::kLanes);
      sum1 += left * S::load(b1 + t * S::kLanes);
      sum2 += left * S::load(b2 + t * S::kLanes);
      sum3 += left * S::load(b3 + t * S::kLanes);
    }
    S::store_quad(dots + e, S::sums(sum0, sum1, sum2, sum3));
  }
}

/// dots[e] = a · b[columns[e]], four neighbours at a time. Writes up to three scalars past `count`.
template <class S>
TOPOMASK_INLINE void row_dots(const typename S::Scalar* a, const typename S::Scalar* b, int64_t width,
                              const int32_t* columns, int64_t count, typename S::Scalar* dots) {
  switch (width / S::kLanes) {  // the common widths: a stays in registers
    case 4:
      return dot_quads<S, 4>(a, b, width, columns, count, dots);
    case 8:
      return dot_quads<S, 8>(a, b, width, columns, count, dots);
    default:
      return dot_quads<S, 0>(a, b, width, columns, count, dots);
  }
}

template <class S, int kVectors>
TOPOMASK_INLINE void gather_tile(const typename S::Scalar* weights, const typename S::Scalar* x, int64_t width,
                                 const int32_t* columns, int64_t count, typename S::Scalar scale, typename S::Scalar* y,
                                 bool streaming) {
  using Vector = typename S::Vector;
  // A narrow tile takes several entries at once, so that a sum does not wait for the one before.
  constexpr int kChains = kVectors >= 5 ? 1 : kVectors >= 2 ? 2 : 4;
  Vector sums[kChains][kVectors] = {};
  int64_t e = 0;
  for (; e + kChains <= count; e += kChains) {
    for (int chain = 0; chain < kChains; ++chain) {
      const auto weight = weights[e + chain];
      const auto* row = x + columns[e + chain] * width;
      for (int t = 0; t < kVectors; ++t) sums[chain][t] += weight * S::load(row + t * S::kLanes);
    }
  }
  for (; e < count; ++e) {
    const auto* row = x + columns[e] * width;
    for (int t = 0; t < kVectors; ++t) sums[0][t] += weights[e] * S::load(row + t * S::kLanes);
  }
  for (int t = 0; t < kVectors; ++t) {
    Vector sum = sums[0][t];
    for (int chain = 1; chain < kChains; ++chain) sum += sums[chain][t];
    if (streaming) {
      S::stream(y + t * S::kLanes, sum * scale);
    } else {
      S::store(y + t * S::kLanes, sum * scale);
    }
  }
}

/// y = scale · Σ_e weights[e] x[columns[e]]: a tile of y stays in registers over all entries of the row. `streaming`
/// writes y as S::stream does.
template <class S>
TOPOMASK_INLINE void gather_row(const typename S::Scalar* weights, const typename S::Scalar* x, int64_t width,
                                const int32_t* columns, int64_t count, typename S::Scalar scale, typename S::Scalar* y,
                                bool streaming = false) {
  constexpr int kTile = 8;
  const int64_t vectors = width / S::kLanes;
  int64_t t = 0;
  for (; t + kTile <= vectors; t += kTile) {
    gather_tile<S, kTile>(weights, x + t * S::kLanes, width, columns, count, scale, y + t * S::kLanes, streaming);
  }
  x += t * S::kLanes;
  y += t * S::kLanes;
  switch (vectors - t) {
    case 1:
      return gather_tile<S, 1>(weights, x, width, columns, count, scale, y, streaming);
    case 2:
      return gather_tile<S, 2>(weights, x, width, columns, count, scale, y, streaming);
    case 3:
      return gather_tile<S, 3>(weights, x, width, columns, count, scale, y, streaming);
    case 4:
      return gather_tile<S, 4>(weights, x, width, columns, count, scale, y, streaming);
    case 5:
      return gather_tile<S, 5>(weights, x, width, columns, count, scale, y, streaming);
    case 6:
      return gather_tile<S, 6>(weights, x, width, columns, count, scale, y, streaming);
    case 7:
      return gather_tile<S, 7>(weights, x, width, columns, count, scale, y, streaming);
    default:
      return;
  }
}

}  // namespace topomask::ops

#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

// Products with a table over tree distances on the GPU, one level of centroids at a time: kernels over raw pointers and
// a stream, for all slices [slices, rows, C] at once.

namespace topomask::cuda {

/// to_r = Σ from_i over the items i of row r, in their order.
template <class T>
struct RowSumArgs {
  const int64_t* offsets;  ///< [rows + 1]
  const int32_t* items;
  const T* from;
  T* to;
  int64_t rows, from_rows, columns, slices;
};
template <class T>
void row_sums(const RowSumArgs<T>& args, cudaStream_t stream);

/// y_i += sign·from[place_i], where place_i is not negative.
template <class T>
struct SpreadArgs {
  const int32_t* place;  ///< [rows]
  const T* from;
  T* y;
  T sign;
  int64_t rows, from_rows, columns, slices;
};
template <class T>
void spread(const SpreadArgs<T>& args, cudaStream_t stream);

/// Bins of one meeting that are done together, and those they meet: rows begin … end−1, by ascending depth.
struct HankelTile {
  int32_t first, count, begin, end;
};
inline constexpr int kHankelBins = 8;  ///< the most of a tile

/// Slice s has the table of head s mod `heads`.
struct HankelShape {
  const int32_t* depth;  ///< [rows]
  const HankelTile* tiles;
  int64_t tile_count;
  int64_t entries;  ///< K; a table has one more, which is 0
  int64_t heads;
  int64_t rows, columns, slices;
};

/// products_s = Σ_t f[depth_s + depth_t] sums_t; the tiles hold every row once. table [heads, K + 1].
template <class T>
void hankel_products(const HankelShape& shape, const T* table, const T* sums, T* products, cudaStream_t stream);

/// gradient[depth_s + depth_t] += sign·⟨g_s, x_t⟩ over the tiles; gradient [heads, K + 1]. Atomic: the order of the
/// sums, in float64, is not fixed.
template <class T>
void hankel_gradient(const HankelShape& shape, const T* g, const T* x, double sign, double* gradient,
                     cudaStream_t stream);

}  // namespace topomask::cuda

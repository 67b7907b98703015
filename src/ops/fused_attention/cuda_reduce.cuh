#pragma once

#include "ops/fused_attention/cuda_columns.cuh"

// From a tile of the gradient of M to the parameters: offsets, tables or the matrix itself.

namespace topomask::cuda {

template <TileKind kKind>
inline constexpr bool kTableKind = kKind == TileKind::places || kKind == TileKind::hamming;

/// Adds the tile [kTile, kTile + 1] in shared memory to the offsets `sums` that it is a window of: a row at a time,
/// whose columns are all different offsets.
template <int kTile, int kThreadCount>
__device__ __forceinline__ void reduce_to_offsets(const float* tile, float* window, const TileMask<float>& mask,
                                                  int row0, int column0, int longest, float* sums) {
  const int nodes = (int)mask.nodes, globals = (int)mask.globals;
  const int rows = min(kTile, nodes - row0), columns = min(kTile, nodes - column0);
  const int low = mask.codes[row0], high = mask.codes[column0 + columns - 1];
  const int length = mask.codes[row0 + rows - 1] - low + high - mask.codes[column0] + 1;
  float* to = sums + low - high + mask.shift;
  const bool fits = length <= longest;
  if (!fits) window = to;
  for (int at = threadIdx.x; at < length && fits; at += kThreadCount) window[at] = 0;
  const int column = column0 + threadIdx.x;
  const bool takes = threadIdx.x < columns && column >= globals;
  const int code = takes ? mask.codes[column] : 0;
  __syncthreads();
  for (int row = 0; row < rows; ++row) {
    if (takes && row0 + row >= globals) {
      window[mask.codes[row0 + row] - low + high - code] += tile[row * (kTile + 1) + threadIdx.x];
    }
    __syncthreads();
  }
  for (int at = threadIdx.x; at < length && fits; at += kThreadCount) to[at] += window[at];
  __syncthreads();
}

/// Where a block keeps what it sums: shared memory after the tile, and its own copy of the gradient.
struct TileSums {
  float* tile;       ///< offsets: [kTile, kTile + 1], and a window of kLongestWindow after it
  float* histogram;  ///< tables: kLongestTable values for each thread, this one's kThreadCount apart
  float* sums;       ///< the block's copy
};

/// Adds one value of the gradient of M: row and column in the tile; i and j count nodes after the global tokens.
template <int kTile, int kThreadCount, TileKind kKind>
__device__ __forceinline__ void reduce_value(const TileSums& to, const TileValues<kKind, false>& mask, int row,
                                             int column, int i, int j, int inner, int first_place, int places,
                                             float value) {
  const bool counts = i >= 0 && j >= 0 && i < inner && j < inner;
  if constexpr (kKind == TileKind::offsets) {
    to.tile[row * (kTile + 1) + column] = value;
  } else if constexpr (kKind == TileKind::matrix) {
    if (counts) to.sums[(int64_t)i * inner + j] = value;
  } else if constexpr (kTableKind<kKind>) {
    const int place = counts ? mask.place(i, j) - first_place : -1;
    if (place >= 0 && place < places) to.histogram[place * kThreadCount] += value;
  }
}

/// The threads' histograms, from the first thread's on, become the block's sums.
template <int kThreadCount>
__device__ __forceinline__ void reduce_histograms(const float* histograms, int places, float* sums) {
  __syncthreads();
  for (int place = threadIdx.x; place < places; place += kThreadCount) {
    double sum = 0;
    for (int thread = 0; thread < kThreadCount; ++thread) sum += histograms[place * kThreadCount + thread];
    sums[place] = (float)sum;
  }
}

}  // namespace topomask::cuda

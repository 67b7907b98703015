#pragma once

#include <cstdint>

#include "core/cuda/long_rows.h"

namespace topomask::cuda {

inline constexpr int kLongThreads = 512;  ///< that share a long row

/// f(row) for the long rows among those that this block looks at, a row a thread; all threads take each together. A
/// block looks at some rows here and some there, so that long ones that are neighbours are not all its own.
template <class F>
__device__ __forceinline__ void for_long_rows(const int64_t* offsets, int64_t rows, int longest_short, const F& f) {
  constexpr int kNeighbours = 32;
  __shared__ bool found[kLongThreads];
  const auto row_of = [&](int thread) {
    const int64_t neighbours = static_cast<int64_t>(thread / kNeighbours) * gridDim.x + blockIdx.x;
    return neighbours * kNeighbours + thread % kNeighbours;
  };
  const int64_t row = row_of(threadIdx.x);
  const bool is_long = row < rows && offsets[row + 1] - offsets[row] > longest_short;
  if (__syncthreads_or(is_long) == 0) return;
  found[threadIdx.x] = is_long;
  __syncthreads();
  for (int thread = 0; thread < kLongThreads; ++thread) {
    if (found[thread]) f(row_of(thread));
  }
}

/// Blocks that look at so many rows, for all slices.
inline dim3 long_row_blocks(int64_t rows, int64_t slices) {
  constexpr int64_t kMostSlices = 65535;
  return dim3(static_cast<unsigned>((rows + kLongThreads - 1) / kLongThreads),
              static_cast<unsigned>(slices < kMostSlices ? slices : kMostSlices));
}

}  // namespace topomask::cuda

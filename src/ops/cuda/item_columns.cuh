#pragma once

#include <cstdint>

#include "ops/cuda/slice_ranges.h"

namespace topomask::cuda {

/// How kernels over trees share out their work: a warp takes an item (a node, a path, a tile, …) and 32 columns of one
/// slice. A launch takes kMostSlices slices at most, from `first_slice` on.
struct ItemColumns {
  static constexpr int kWarp = 32, kThreads = 128, kWarps = kThreads / kWarp;

  __device__ __forceinline__ explicit ItemColumns(int64_t first_slice) : slice(first_slice + blockIdx.z) {}

  int64_t item = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  int64_t column = static_cast<int64_t>(blockIdx.y) * kWarp + threadIdx.x % kWarp;
  int64_t slice;

  /// launch(grid, first_slice) until all slices are taken.
  template <class Launch>
  static void launch(int64_t items, int64_t columns, int64_t slices, const Launch& launch) {
    for_slice_ranges(slices, [&](int64_t first_slice, unsigned count) {
      const dim3 grid(static_cast<unsigned>((items + kWarps - 1) / kWarps),
                      static_cast<unsigned>((columns + kWarp - 1) / kWarp), count);
      launch(grid, first_slice);
    });
  }
};

}  // namespace topomask::cuda

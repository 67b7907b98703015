#pragma once

#include <cstdint>

namespace topomask::cuda {

/// How kernels over trees share out their work: a warp takes an item (a node, a path, a tile, …) and 32 columns of one
/// slice.
struct ItemColumns {
  static constexpr int kWarp = 32, kThreads = 128, kWarps = kThreads / kWarp;

  int64_t item = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  int64_t column = static_cast<int64_t>(blockIdx.y) * kWarp + threadIdx.x % kWarp;
  int64_t slice = blockIdx.z;

  static dim3 grid(int64_t items, int64_t columns, int64_t slices) {
    return {static_cast<unsigned>((items + kWarps - 1) / kWarps), static_cast<unsigned>((columns + kWarp - 1) / kWarp),
            static_cast<unsigned>(slices)};
  }
};

}  // namespace topomask::cuda

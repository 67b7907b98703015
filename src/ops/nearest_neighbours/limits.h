#pragma once

#include <cstdint>

// Plain numbers, for the CUDA kernels as well.

namespace topomask::ops::nearest_neighbours {

/// The most neighbours and coordinates of the kernels on a GPU, which keep both in registers.
inline constexpr int64_t kMostCudaNeighbours = 32, kMostCudaDims = 32;

}  // namespace topomask::ops::nearest_neighbours

#pragma once

#include <cstdint>

namespace topomask::ops::sparse_attention {

/// The widest row of q, k or v that the CUDA kernels take, in bytes: four packets of sixteen bytes for each of the 32
/// threads of a warp.
inline constexpr int64_t kMaxCudaRowBytes = 4 * 32 * 16;

/// The widest row of q, k or v that the kernels over tiles take, in values.
inline constexpr int64_t kMaxTiledWidth = 128;

}  // namespace topomask::ops::sparse_attention

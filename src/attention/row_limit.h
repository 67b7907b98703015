#pragma once

#include <cstdint>

namespace topomask {

/// The widest row of q, k or v that the sparse kernels take on CUDA, in bytes: four packets of sixteen bytes for each
/// of the 32 threads of a warp. The planner offers no sparse route beyond it.
inline constexpr int64_t kMaxCudaRowBytes = 4 * 32 * 16;

}  // namespace topomask

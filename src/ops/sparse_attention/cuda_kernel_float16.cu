#include "ops/sparse_attention/cuda_kernel.cuh"

namespace topomask::cuda {

TOPOMASK_SPARSE_ATTENTION(__half, float)

}  // namespace topomask::cuda

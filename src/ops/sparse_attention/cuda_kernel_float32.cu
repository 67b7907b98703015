#include "ops/sparse_attention/cuda_kernel.cuh"

namespace topomask::cuda {

TOPOMASK_SPARSE_ATTENTION(float, float)

}  // namespace topomask::cuda

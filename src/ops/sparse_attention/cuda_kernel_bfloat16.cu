#include "ops/sparse_attention/cuda_kernel.cuh"

namespace topomask::cuda {

TOPOMASK_SPARSE_ATTENTION(__nv_bfloat16, float)

}  // namespace topomask::cuda

#include "ops/sparse_attention/cuda_kernel.cuh"

namespace topomask::cuda {

TOPOMASK_SPARSE_ATTENTION(double, double)

}  // namespace topomask::cuda

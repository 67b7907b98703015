#include "attention/sparse_attention.cuh"

namespace topomask::cuda {

TOPOMASK_SPARSE_ATTENTION(float, float)

}  // namespace topomask::cuda

#include "attention/sparse_attention.cuh"

namespace topomask::cuda {

TOPOMASK_SPARSE_ATTENTION(__half, float)

}  // namespace topomask::cuda

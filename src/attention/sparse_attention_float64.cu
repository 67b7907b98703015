#include "attention/sparse_attention.cuh"

namespace topomask::cuda {

TOPOMASK_SPARSE_ATTENTION(double, double)

}  // namespace topomask::cuda

#include "ops/fused_attention/cuda_launch.cuh"
#include "ops/fused_attention/cuda_rows.cuh"

namespace topomask::cuda {

// Rows of 65 to 128 values.
template <class T>
cudaError_t wide_query_gradient(const FusedArgs<T>& a, const FusedGradArgs<T>& g, const FusedRows<T>& grad_q,
                                cudaStream_t stream) {
  return with_choice(a, [&](auto kind, auto weighting) {
    return launch_fused(fused_rows_kernel<T, 128, 128, 1, kind, weighting, true>, fused_grid(a, 64), kFusedThreads,
                        rows_shared<1, 128, 128, kind>(a.window), stream, a, g, grad_q);
  });
}

template cudaError_t wide_query_gradient(const FusedArgs<__nv_bfloat16>&, const FusedGradArgs<__nv_bfloat16>&,
                                         const FusedRows<__nv_bfloat16>&, cudaStream_t);

}  // namespace topomask::cuda

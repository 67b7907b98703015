#include "ops/fused_attention/cuda_columns.cuh"
#include "ops/fused_attention/cuda_launch.cuh"

namespace topomask::cuda {

// Rows of 65 to 128 values.
template <class T>
cudaError_t wide_key_gradients(const FusedArgs<T>& a, const FusedGradArgs<T>& g, const FusedRows<T>& grad_k,
                               const FusedRows<T>& grad_v, cudaStream_t stream) {
  return with_choice(a, [&](auto kind, auto weighting) {
    return launch_fused(fused_columns_kernel<T, 128, 128, kind, weighting>, fused_grid(a, 64), kFusedThreads,
                        columns_shared<128, 128, kind>(a.window), stream, a, g, grad_k, grad_v);
  });
}

template cudaError_t wide_key_gradients(const FusedArgs<__nv_bfloat16>&, const FusedGradArgs<__nv_bfloat16>&,
                                        const FusedRows<__nv_bfloat16>&, const FusedRows<__nv_bfloat16>&, cudaStream_t);

}  // namespace topomask::cuda

#include "ops/fused_attention/cuda_hopper_columns.cuh"
#include "ops/fused_attention/cuda_launch.cuh"

namespace topomask::cuda {

template <class T>
cudaError_t fused_key_gradients(const FusedArgs<T>& a, const FusedGradArgs<T>& g, const FusedRows<T>& grad_k,
                                const FusedRows<T>& grad_v, cudaStream_t stream) {
  if (a.q.width > 64 || a.v.width > 64) return wide_key_gradients(a, g, grad_k, grad_v, stream);
  return with_choice(a, [&](auto kind, auto weighting) {
    return launch_fused(hopper_columns_kernel<T, kind, weighting>, fused_grid(a, 64), 128,
                        hopper_columns_shared<kind>(a.window), stream, a, g, grad_k, grad_v);
  });
}

template cudaError_t fused_key_gradients(const FusedArgs<__nv_bfloat16>&, const FusedGradArgs<__nv_bfloat16>&,
                                         const FusedRows<__nv_bfloat16>&, const FusedRows<__nv_bfloat16>&,
                                         cudaStream_t);

}  // namespace topomask::cuda

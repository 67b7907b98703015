#include "ops/fused_attention/cuda_launch.cuh"
#include "ops/fused_attention/cuda_mask_gradient.cuh"

namespace topomask::cuda {

// Rows of 65 to 128 values.
template <class T>
cudaError_t wide_mask_gradient(const FusedArgs<T>& a, const FusedGradArgs<T>& g, const FusedGroups& groups, float* sums,
                               cudaStream_t stream) {
  return with_choice(a, [&](auto kind, auto weighting) {
    if constexpr (kind == TileKind::ones || kind == TileKind::causal) {
      return cudaErrorInvalidValue;
    } else {
      if (groups.tile != 64) return cudaErrorInvalidValue;
      const dim3 grid((unsigned)groups.parts, (unsigned)a.mask.heads, (unsigned)groups.splits);
      return launch_fused(fused_mask_gradient_kernel<T, 64, 128, 128, kind, weighting>, grid, 256,
                          mask_gradient_shared<64, 128, 128, kind>((int)a.mask.length), stream, a, g, groups, sums);
    }
  });
}

template cudaError_t wide_mask_gradient(const FusedArgs<__nv_bfloat16>&, const FusedGradArgs<__nv_bfloat16>&,
                                        const FusedGroups&, float*, cudaStream_t);

}  // namespace topomask::cuda

#include "ops/fused_attention/cuda_hopper_mask_gradient.cuh"
#include "ops/fused_attention/cuda_launch.cuh"

namespace topomask::cuda {

template <class T>
cudaError_t fused_mask_gradient(const FusedArgs<T>& a, const FusedGradArgs<T>& g, const FusedGroups& groups,
                                float* sums, cudaStream_t stream) {
  if (a.q.width > 64 || a.v.width > 64) return wide_mask_gradient(a, g, groups, sums, stream);
  return with_choice(a, [&](auto kind, auto weighting) {
    if constexpr (kind == TileKind::ones || kind == TileKind::causal) {
      return cudaErrorInvalidValue;
    } else {
      const dim3 grid((unsigned)groups.parts, (unsigned)a.mask.heads, (unsigned)groups.splits);
      const auto launch = [&](auto tile) {
        return launch_fused(hopper_mask_gradient_kernel<T, tile, kind, weighting>, grid,
                            mask_gradient_threads<tile, weighting>(),
                            hopper_mask_gradient_shared<tile, kind, weighting>((int)a.mask.length, a.window), stream, a,
                            g, groups, sums);
      };
      if constexpr (!kTableKind<kind>) {
        if (groups.tile == 128) return launch(Fixed<128>{});
      }
      return groups.tile == 64 ? launch(Fixed<64>{}) : cudaErrorInvalidValue;
    }
  });
}

template cudaError_t fused_mask_gradient(const FusedArgs<__nv_bfloat16>&, const FusedGradArgs<__nv_bfloat16>&,
                                         const FusedGroups&, float*, cudaStream_t);

}  // namespace topomask::cuda

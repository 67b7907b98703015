#include "ops/fused_attention/cuda_hopper_rows.cuh"
#include "ops/fused_attention/cuda_launch.cuh"
#include "ops/fused_attention/cuda_rows.cuh"

namespace topomask::cuda {

template <class T>
cudaError_t fused_forward(const FusedArgs<T>& a, const FusedRows<T>& out, cudaStream_t stream) {
  if (a.q.width > 64 || a.v.width > 64) return wide_forward(a, out, stream);
  return with_choice(a, [&](auto kind, auto weighting) {
    // The values of a matrix come from global memory; more warps with more rows each hide its latency better.
    if constexpr (kind == TileKind::matrix) {
      constexpr int kFrags = 2;
      return launch_fused(fused_rows_kernel<T, 64, 64, kFrags, kind, weighting, false>, fused_grid(a, 64 * kFrags),
                          kFusedThreads, rows_shared<kFrags, 64, 64, kind>(a.window), stream, a, FusedGradArgs<T>{},
                          out);
    } else {
      constexpr int kGroups = row_groups(weighting, false);
      return launch_fused(hopper_rows_kernel<T, kind, weighting, false>, fused_grid(a, 64 * kGroups), 128 * kGroups,
                          hopper_rows_shared<kind>(kGroups, false, a.window), stream, a, FusedGradArgs<T>{}, out);
    }
  });
}

template cudaError_t fused_forward(const FusedArgs<__nv_bfloat16>&, const FusedRows<__nv_bfloat16>&, cudaStream_t);

}  // namespace topomask::cuda

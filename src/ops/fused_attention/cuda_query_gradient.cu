#include "ops/fused_attention/cuda_hopper_rows.cuh"
#include "ops/fused_attention/cuda_launch.cuh"
#include "ops/fused_attention/cuda_rows.cuh"
#include "ops/fused_attention/cuda_statistics.cuh"

namespace topomask::cuda {

namespace {

/// Eight lanes take a row.
template <class T>
__global__ void statistics_kernel(const FusedArgs<T> a, const FusedGradArgs<T> g) {
  const int64_t nodes = a.mask.nodes, rows = a.batch * a.heads * nodes;
  const int64_t mine = (int64_t)blockIdx.x * 32 + threadIdx.x / 8, at = mine < rows ? mine : rows - 1;
  const int slice = (int)(at / nodes), row = (int)(at % nodes), lane = threadIdx.x % 8;
  const T* out = g.out.data + slice_of(g.out, slice / a.heads, slice % a.heads) + row * g.out.row;
  const T* grad = g.grad.data + slice_of(g.grad, slice / a.heads, slice % a.heads) + row * g.grad.row;
  float sum = 0;
  for (int c = lane * 8; c < g.grad.width; c += 64) {
    const uint4 x = *reinterpret_cast<const uint4*>(out + c), y = *reinterpret_cast<const uint4*>(grad + c);
    sum += dot_of_two<T>(x.x, y.x) + dot_of_two<T>(x.y, y.y) + dot_of_two<T>(x.z, y.z) + dot_of_two<T>(x.w, y.w);
  }
#pragma unroll
  for (int step = 4; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (lane != 0 || mine >= rows) return;
  store_statistics(a, g, at, sum);
}

}  // namespace

template <class T>
cudaError_t fused_statistics(const FusedArgs<T>& a, const FusedGradArgs<T>& g, cudaStream_t stream) {
  const int64_t rows = a.batch * a.heads * a.mask.nodes;
  return launch_fused(statistics_kernel<T>, dim3((unsigned)((rows + 31) / 32)), 256, 0, stream, a, g);
}

template <class T>
cudaError_t fused_query_gradient(const FusedArgs<T>& a, const FusedGradArgs<T>& g, const FusedRows<T>& grad_q,
                                 cudaStream_t stream) {
  if (a.q.width > 64 || a.v.width > 64) return wide_query_gradient(a, g, grad_q, stream);
  return with_choice(a, [&](auto kind, auto weighting) {
    // The values of a matrix come from global memory; more warps with more rows each hide its latency better.
    if constexpr (kind == TileKind::matrix) {
      constexpr int kFrags = weighting == Weighting::kernel ? 2 : 1;
      return launch_fused(fused_rows_kernel<T, 64, 64, kFrags, kind, weighting, true>, fused_grid(a, 64 * kFrags),
                          kFusedThreads, rows_shared<kFrags, 64, 64, kind>(a.window), stream, a, g, grad_q);
    } else {
      constexpr int kGroups = row_groups(weighting, true);
      return launch_fused(hopper_rows_kernel<T, kind, weighting, true>, fused_grid(a, 64 * kGroups), 128 * kGroups,
                          hopper_rows_shared<kind>(kGroups, true, a.window), stream, a, g, grad_q);
    }
  });
}

template cudaError_t fused_statistics(const FusedArgs<__nv_bfloat16>&, const FusedGradArgs<__nv_bfloat16>&,
                                      cudaStream_t);
template cudaError_t fused_query_gradient(const FusedArgs<__nv_bfloat16>&, const FusedGradArgs<__nv_bfloat16>&,
                                          const FusedRows<__nv_bfloat16>&, cudaStream_t);

}  // namespace topomask::cuda

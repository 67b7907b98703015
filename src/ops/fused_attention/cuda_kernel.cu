#include "ops/fused_attention/cuda_kernel.h"
#include "ops/fused_attention/cuda_launch.cuh"

namespace topomask::cuda {
namespace {

/// Eight lanes take a row.
template <class T>
__global__ void statistics_kernel(const FusedArgs<T> a, const FusedGradArgs<T> g) {
  const int64_t nodes = a.mask.nodes, rows = a.batch * a.heads * nodes;
  const int64_t mine = (int64_t)blockIdx.x * (blockDim.x / 8) + threadIdx.x / 8, at = mine < rows ? mine : rows - 1;
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
  const float d = a.denominator[at];
  const bool free = a.weighting == Weighting::additive || fabsf(d) >= a.eps;
  g.inverse[at] = 1.f / (free ? d : clamped(d, a.eps));
  g.delta[at] = free ? sum : 0.f;
}

}  // namespace

template <class T>
cudaError_t fused_forward(const FusedArgs<T>& a, const FusedRows<T>& out, cudaStream_t stream) {
  return with_choice(a, [&](auto m, auto d, auto kind, auto weighting) {
    constexpr int kFrags = m + d > 128 ? 1 : 2;
    return launch_fused(fused_rows_kernel<T, m, d, kFrags, kind, weighting, false>, fused_grid(a, 64 * kFrags),
                        kFusedThreads, rows_shared<kFrags, m, d, kind>(a.window), stream, a, FusedGradArgs<T>{}, out);
  });
}

template <class T>
cudaError_t fused_statistics(const FusedArgs<T>& a, const FusedGradArgs<T>& g, cudaStream_t stream) {
  const int64_t rows = a.batch * a.heads * a.mask.nodes;
  statistics_kernel<T><<<(unsigned)((rows + 31) / 32), 256, 0, stream>>>(a, g);
  return cudaGetLastError();
}

template <class T>
cudaError_t fused_query_gradient(const FusedArgs<T>& a, const FusedGradArgs<T>& g, const FusedRows<T>& grad_q,
                                 cudaStream_t stream) {
  return with_choice(a, [&](auto m, auto d, auto kind, auto weighting) {
    constexpr int kFrags = m + d > 128 || weighting != Weighting::kernel ? 1 : 2;
    return launch_fused(fused_rows_kernel<T, m, d, kFrags, kind, weighting, true>, fused_grid(a, 64 * kFrags),
                        kFusedThreads, rows_shared<kFrags, m, d, kind>(a.window), stream, a, g, grad_q);
  });
}

template <class T>
cudaError_t fused_key_gradients(const FusedArgs<T>& a, const FusedGradArgs<T>& g, const FusedRows<T>& grad_k,
                                const FusedRows<T>& grad_v, cudaStream_t stream) {
  return with_choice(a, [&](auto m, auto d, auto kind, auto weighting) {
    return launch_fused(fused_columns_kernel<T, m, d, kind, weighting>, fused_grid(a, 64), kFusedThreads,
                        columns_shared<m, d, kind>(a.window), stream, a, g, grad_k, grad_v);
  });
}

template <class T>
cudaError_t fused_mask_gradient(const FusedArgs<T>& a, const FusedGradArgs<T>& g, const FusedGroups& groups,
                                float* sums, cudaStream_t stream) {
  return with_choice(a, [&](auto m, auto d, auto kind, auto weighting) {
    constexpr bool kHasValues = kind != TileKind::ones && kind != TileKind::causal;
    if constexpr (kHasValues) {
      const dim3 grid((unsigned)groups.parts, (unsigned)a.mask.heads, (unsigned)groups.splits);
      if constexpr (m + d <= 128 && !kTableKind<kind>) {
        if (groups.tile == 128) {
          return launch_fused(fused_mask_gradient_kernel<T, 128, m, d, kind, weighting>, grid, 512,
                              mask_gradient_shared<128, m, d, kind>((int)a.mask.length), stream, a, g, groups, sums);
        }
      }
      if (groups.tile != 64) return cudaErrorInvalidValue;
      return launch_fused(fused_mask_gradient_kernel<T, 64, m, d, kind, weighting>, grid, 256,
                          mask_gradient_shared<64, m, d, kind>((int)a.mask.length), stream, a, g, groups, sums);
    } else {
      return cudaErrorInvalidValue;
    }
  });
}

#define TOPOMASK_FUSED(T)                                                                                         \
  template cudaError_t fused_forward<T>(const FusedArgs<T>&, const FusedRows<T>&, cudaStream_t);                  \
  template cudaError_t fused_statistics<T>(const FusedArgs<T>&, const FusedGradArgs<T>&, cudaStream_t);           \
  template cudaError_t fused_query_gradient<T>(const FusedArgs<T>&, const FusedGradArgs<T>&, const FusedRows<T>&, \
                                               cudaStream_t);                                                     \
  template cudaError_t fused_key_gradients<T>(const FusedArgs<T>&, const FusedGradArgs<T>&, const FusedRows<T>&,  \
                                              const FusedRows<T>&, cudaStream_t);                                 \
  template cudaError_t fused_mask_gradient<T>(const FusedArgs<T>&, const FusedGradArgs<T>&, const FusedGroups&,   \
                                              float*, cudaStream_t);
TOPOMASK_FUSED(__nv_bfloat16)
#undef TOPOMASK_FUSED

}  // namespace topomask::cuda

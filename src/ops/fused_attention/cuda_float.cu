#include "ops/fused_attention/cuda_float_mask_gradient.cuh"
#include "ops/fused_attention/cuda_float_rows.cuh"
#include "ops/fused_attention/cuda_launch.cuh"
#include "ops/fused_attention/cuda_statistics.cuh"

// Fused attention in float32: the passes of cuda_kernel.h.

namespace topomask::cuda {
namespace {

/// Eight lanes take a row.
__global__ void float_statistics_kernel(const FusedArgs<float> a, const FusedGradArgs<float> g) {
  const int64_t nodes = a.mask.nodes, rows = a.batch * a.heads * nodes;
  const int64_t mine = (int64_t)blockIdx.x * 32 + threadIdx.x / 8, at = mine < rows ? mine : rows - 1;
  const int slice = (int)(at / nodes), row = (int)(at % nodes), lane = threadIdx.x % 8;
  const float* out = g.out.data + slice_of(g.out, slice / a.heads, slice % a.heads) + row * g.out.row;
  const float* grad = g.grad.data + slice_of(g.grad, slice / a.heads, slice % a.heads) + row * g.grad.row;
  float sum = 0;
  // A float16 output beyond its range is infinite; where nothing depends on it, it adds nothing.
  for (int c = lane; c < g.grad.width; c += 8) sum += grad[c] != 0 ? out[c] * grad[c] : 0.f;
#pragma unroll
  for (int step = 4; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (lane != 0 || mine >= rows) return;
  store_statistics(a, g, at, sum);
}

template <FloatPass kPass>
cudaError_t run_pass(const FusedArgs<float>& a, const FusedGradArgs<float>& g, const FusedRows<float>& result,
                     int slices, cudaStream_t stream) {
  const int64_t nodes = a.mask.nodes;
  const dim3 grid((unsigned)((nodes + kFloatHeld - 1) / kFloatHeld), (unsigned)slices,
                  (unsigned)((result.width + 63) / 64));
  const int bytes = float_rows_shared(kPass, a.q.width, a.v.width);
  return a.tf32 ? launch_fused(float_rows_kernel<false, kPass>, grid, kFloatThreads, bytes, stream, a, g, result)
                : launch_fused(float_rows_kernel<true, kPass>, grid, kFloatThreads, bytes, stream, a, g, result);
}

}  // namespace

template <>
cudaError_t fused_forward(const FusedArgs<float>& a, const FusedRows<float>& out, cudaStream_t stream) {
  return run_pass<FloatPass::forward>(a, {}, out, a.batch * a.heads, stream);
}

template <>
cudaError_t fused_statistics(const FusedArgs<float>& a, const FusedGradArgs<float>& g, cudaStream_t stream) {
  const int64_t rows = a.batch * a.heads * a.mask.nodes;
  return launch_fused(float_statistics_kernel, dim3((unsigned)((rows + 31) / 32)), 256, 0, stream, a, g);
}

template <>
cudaError_t fused_query_gradient(const FusedArgs<float>& a, const FusedGradArgs<float>& g,
                                 const FusedRows<float>& grad_q, cudaStream_t stream) {
  return run_pass<FloatPass::query>(a, g, grad_q, a.batch * a.heads, stream);
}

template <>
cudaError_t fused_key_gradients(const FusedArgs<float>& a, const FusedGradArgs<float>& g,
                                const FusedRows<float>& grad_k, const FusedRows<float>& grad_v, cudaStream_t stream) {
  const cudaError_t made = run_pass<FloatPass::key>(a, g, grad_k, a.batch * a.heads, stream);
  return made != cudaSuccess ? made : run_pass<FloatPass::value>(a, g, grad_v, a.batch * a.heads, stream);
}

template <>
cudaError_t fused_mask_gradient(const FusedArgs<float>& a, const FusedGradArgs<float>& g, const FusedGroups& groups,
                                float* sums, cudaStream_t stream) {
  return with_kind(a.mask.kind, [&](auto kind) {
    if constexpr (kind == TileKind::ones || kind == TileKind::causal) {
      return cudaErrorInvalidValue;
    } else {
      if (groups.tile != 64) return cudaErrorInvalidValue;
      const dim3 grid((unsigned)groups.parts, (unsigned)a.mask.heads, (unsigned)groups.splits);
      const int bytes = float_mask_gradient_shared<kind>((int)a.mask.length);
      return a.tf32 ? launch_fused(float_mask_gradient_kernel<false, kind>, grid, kFloatTileThreads, bytes, stream, a,
                                   g, groups, sums)
                    : launch_fused(float_mask_gradient_kernel<true, kind>, grid, kFloatTileThreads, bytes, stream, a, g,
                                   groups, sums);
    }
  });
}

cudaError_t fused_factor_gradients(const FusedArgs<float>& a, const FusedGradArgs<float>& g, float* left, float* right,
                                   cudaStream_t stream) {
  const int rank = (int)a.mask.rank;
  const auto rows = [&](float* data) { return FusedRows<float>{data, 0, a.mask.length, rank, rank}; };
  const int slices = (int)a.mask.heads;
  const cudaError_t made = run_pass<FloatPass::left>(a, g, rows(left), slices, stream);
  return made != cudaSuccess ? made : run_pass<FloatPass::right>(a, g, rows(right), slices, stream);
}

}  // namespace topomask::cuda

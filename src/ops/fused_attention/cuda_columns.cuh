#pragma once

#include "ops/fused_attention/cuda_mask.cuh"
#include "ops/fused_attention/cuda_rows.cuh"

// The pass that holds columns (keys and values) and steps through rows (queries): the gradients of k and v.

namespace topomask::cuda {

template <int kM, int kD, TileKind kKind>
constexpr int columns_shared(int window) {
  const int stage = kFusedColumns * (kM + kD) * 2 + (3 * kFusedColumns + TileValues<kKind, true>::words(window)) * 4;
  const int held = 64 * (kM + kD) * 2;
  return held > 2 * stage ? held : 2 * stage;
}

/// What a weight is multiplied by in its gradients, for one pair of nodes.
struct PairGradients {
  float weight;  ///< of the value in the output
  float score;   ///< gradient of <q, k>
  float mask;    ///< gradient of M_ij
};

/// s = <q_i, k_j>, p = <grad_i, v_j>, and what is known of row i.
template <Weighting kWeighting>
__device__ __forceinline__ PairGradients pair_gradients(float m, float s, float p, float inverse, float delta,
                                                        float largest, float scale) {
  const float moved = (p - delta) * inverse;
  if constexpr (kWeighting == Weighting::kernel) return {m * s * inverse, m * moved, s * moved};
  if constexpr (kWeighting == Weighting::additive) {
    // A row past the last node has inverse 0 and the mask of another row, whose exponential may be infinite.
    const float e =
        inverse == 0 ? 0.f : fused_exponential<kWeighting>((s * scale + m) * kFusedLog2e, largest * kFusedLog2e);
    const float score = e * moved;
    return {e * inverse, score * scale, score};
  }
  const float e = fused_exponential<kWeighting>(s * scale * kFusedLog2e, largest * kFusedLog2e);
  return {m * e * inverse, m * e * moved * scale, e * moved};
}

/// A block holds 64 columns, a warp 16 of them.
template <class T, int kM, int kD, TileKind kKind, Weighting kWeighting>
__global__ void __launch_bounds__(kFusedThreads, kFusedBlocks)
    fused_columns_kernel(const __grid_constant__ FusedArgs<T> a, const __grid_constant__ FusedGradArgs<T> g,
                         const __grid_constant__ FusedRows<T> grad_k, const __grid_constant__ FusedRows<T> grad_v) {
  constexpr bool kKernel = kWeighting == Weighting::kernel;
  constexpr int kHeld = 64, kQueryBytes = kFusedColumns * kM * 2, kGradBytes = kFusedColumns * kD * 2;
  extern __shared__ __align__(1024) unsigned char shared[];
  const uint32_t room = shared_address(shared);
  const int nodes = (int)a.mask.nodes, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int slice = slice_of_block(a), batch = slice / a.heads, head = slice % a.heads, first = blockIdx.x * kHeld;
  const int64_t stats = (int64_t)slice * nodes;
  const T *q = a.q.data + slice_of(a.q, batch, head), *grad = g.grad.data + slice_of(g.grad, batch, head);

  uint32_t k[1][kM / 16][4], v[1][kD / 16][4];
  {
    const FusedTile<kM> keys{room};
    const FusedTile<kD> values{room + kHeld * kM * 2};
    keys.template load<kFusedThreads>(a.k.data + slice_of(a.k, batch, head), a.k.row, a.k.width, first, kHeld, nodes);
    values.template load<kFusedThreads>(a.v.data + slice_of(a.v, batch, head), a.v.row, a.v.width, first, kHeld, nodes);
    commit_copies();
    wait_for_copies<0>();
    __syncthreads();
#pragma unroll
    for (int step = 0; step < kM / 16; ++step) keys.left(k[0][step], warp * 16, step);
#pragma unroll
    for (int step = 0; step < kD / 16; ++step) values.left(v[0][step], warp * 16, step);
    __syncthreads();
  }

  TileValues<kKind, true> mask(a.mask, head, a.window);
  const int stage_bytes = kQueryBytes + kGradBytes + (3 * kFusedColumns + mask.words(a.window)) * 4;
  const auto load = [&](int s, int other) {
    const uint32_t at = room + s * stage_bytes;
    FusedTile<kM>{at}.template load<kFusedThreads>(q, a.q.row, a.q.width, other, kFusedColumns, nodes);
    FusedTile<kD>{at + kQueryBytes}.template load<kFusedThreads>(grad, g.grad.row, g.grad.width, other, kFusedColumns,
                                                                 nodes);
    const uint32_t known = at + kQueryBytes + kGradBytes;
    if (threadIdx.x < kFusedColumns) {
      const int i = other + threadIdx.x;
      const bool valid = i < nodes;
      const int64_t from = stats + (valid ? i : 0);
      copy_async_4(known + threadIdx.x * 4, g.inverse + from, valid);
      copy_async_4(known + (kFusedColumns + threadIdx.x) * 4, g.delta + from, valid);
      if constexpr (!kKernel) copy_async_4(known + (2 * kFusedColumns + threadIdx.x) * 4, a.largest + from, valid);
    }
    mask.template stage<kFusedThreads>(known + 3 * kFusedColumns * 4, other);
  };

  int column[2], key[2];
  float sums_k[1][kM / 8][4], sums_v[1][kD / 8][4];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    column[half] = first + warp * 16 + lane / 4 + 8 * half;
    key[half] = mask.key(column[half]);
  }
#pragma unroll
  for (int e = 0; e < 4; ++e) {
#pragma unroll
    for (int n = 0; n < kM / 8; ++n) sums_k[0][n][e] = 0;
#pragma unroll
    for (int n = 0; n < kD / 8; ++n) sums_v[0][n][e] = 0;
  }

  // In a causal mask the rows before this block are zero, except for global tokens.
  constexpr bool kNothingBefore = kKind == TileKind::causal && kWeighting != Weighting::additive;
  const int begin = kNothingBefore && a.mask.globals == 0 ? first / kFusedColumns * kFusedColumns : 0;
  const bool held_line = mask.is_line(first + warp * 16, 16);
  mask.hold(first, kHeld, begin);
  load(0, begin);
  commit_copies();
  mask.advance();
  for (int other = begin, stage = 0; other < nodes; other += kFusedColumns, stage ^= 1) {
    const int at = stage * stage_bytes;
    if (other + kFusedColumns < nodes) load(stage ^ 1, other + kFusedColumns);
    commit_copies();
    wait_for_copies<1>();
    __syncthreads();
    const float* known = reinterpret_cast<const float*>(shared + at + kQueryBytes + kGradBytes);
    mask.enter(known + 3 * kFusedColumns, first, other);
    const FusedTile<kM> queries{room + at};
    const FusedTile<kD> grads{room + at + kQueryBytes};
#pragma unroll
    for (int chunk = 0; chunk < kFusedColumns; chunk += kFusedChunk) {
      float s[1][4][4], p[1][4][4];
      fused_scores<T, kM, 1>(s, k, queries, chunk);
      fused_scores<T, kD, 1>(p, v, grads, chunk);
      const auto pull = [&](const auto& mask_at) {
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const int place = chunk + n * 8 + lane % 4 * 2;
          const float2 inverse = *reinterpret_cast<const float2*>(known + place);
          const float2 delta = *reinterpret_cast<const float2*>(known + kFusedColumns + place);
          float2 largest = {};
          if constexpr (!kKernel) largest = *reinterpret_cast<const float2*>(known + 2 * kFusedColumns + place);
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const float2 m = mask_at(half, n);
            float &sx = s[0][n][2 * half], &sy = s[0][n][2 * half + 1];
            float &px = p[0][n][2 * half], &py = p[0][n][2 * half + 1];
            const auto x = pair_gradients<kWeighting>(m.x, sx, px, inverse.x, delta.x, largest.x, a.scale);
            const auto y = pair_gradients<kWeighting>(m.y, sy, py, inverse.y, delta.y, largest.y, a.scale);
            sx = x.weight, px = x.score, sy = y.weight, py = y.score;
          }
        }
      };
      if (mask.is_line_with(held_line, chunk)) {
        float near[5][2];
        mask.near(near, key[0] + lane / 4, chunk);
        pull([&](int half, int n) {
          const int x = mask.near_place(0, half, n);
          return float2{near[x][0], near[x][1]};
        });
      } else {
        pull([&](int half, int n) { return mask.pair(key[half], column[half], chunk + n * 8 + lane % 4 * 2); });
      }
      fused_add<T, kD, 1>(sums_v, s, grads, chunk);
      fused_add<T, kM, 1>(sums_k, p, queries, chunk);
    }
    mask.advance();
    __syncthreads();
  }
  const float factor[2] = {1.f, 1.f};
  fused_store<T, kM>(grad_k, slice_of(grad_k, batch, head), first + warp * 16, nodes, sums_k[0], factor);
  fused_store<T, kD>(grad_v, slice_of(grad_v, batch, head), first + warp * 16, nodes, sums_v[0], factor);
}

}  // namespace topomask::cuda

#pragma once

#include "ops/fused_attention/cuda_columns.cuh"
#include "ops/fused_attention/cuda_hopper_rows.cuh"

// The pass that holds columns (keys and values) and steps through rows (queries), for rows of up to 64 values: the
// gradients of k and v. A block is a warpgroup, which holds 64 columns.

namespace topomask::cuda {

/// Blocks that share a multiprocessor.
inline constexpr int kColumnBlocks = 3;

template <TileKind kKind>
constexpr int hopper_columns_shared(int window) {
  return 2 * kTileBytes + kStages * stage_bytes_of(3 * 64 + TileValues<kKind, true>::words(window));
}

template <class T, TileKind kKind, Weighting kWeighting>
__global__ void __launch_bounds__(128, kColumnBlocks)
    hopper_columns_kernel(const __grid_constant__ FusedArgs<T> a, const __grid_constant__ FusedGradArgs<T> g,
                          const __grid_constant__ FusedRows<T> grad_k, const __grid_constant__ FusedRows<T> grad_v) {
  constexpr bool kKernel = kWeighting == Weighting::kernel;
  constexpr int kThreads = 128;
  extern __shared__ __align__(1024) unsigned char shared[];
  const uint32_t room = uniform_shared_address(shared);
  const int nodes = (int)a.mask.nodes, lane = threadIdx.x % 32;
  const int slice = slice_of_block(a), batch = slice / a.heads, head = slice % a.heads, first = blockIdx.x * 64;
  const int mine = first + (int)threadIdx.x / 32 * 16;
  const int64_t stats = (int64_t)slice * nodes;
  const RowCopies<kThreads> q(a.q.data + slice_of(a.q, batch, head), a.q.row, a.q.width);
  const RowCopies<kThreads> grad(g.grad.data + slice_of(g.grad, batch, head), g.grad.row, g.grad.width);

  const FusedTile<64> keys{room}, values{room + kTileBytes};
  keys.template load<kThreads>(a.k.data + slice_of(a.k, batch, head), a.k.row, a.k.width, first, 64, nodes);
  values.template load<kThreads>(a.v.data + slice_of(a.v, batch, head), a.v.row, a.v.width, first, 64, nodes);

  TileValues<kKind, true> mask(a.mask, head, a.window);
  const int stage_bytes = stage_bytes_of(3 * 64 + mask.words(a.window));
  const uint32_t stages = room + 2 * kTileBytes;
  const auto load = [&](int s, int other) {
    const uint32_t at = stages + s * stage_bytes, known = at + 2 * kTileBytes;
    q.template start<64>(at, other, nodes);
    grad.template start<64>(at + kTileBytes, other, nodes);
    if (threadIdx.x < 64) {
      const int i = other + threadIdx.x;
      const bool valid = i < nodes;
      const int64_t from = stats + (valid ? i : 0);
      copy_async_4(known + threadIdx.x * 4, g.inverse + from, valid);
      copy_async_4(known + (64 + threadIdx.x) * 4, g.delta + from, valid);
      if constexpr (!kKernel) copy_async_4(known + (128 + threadIdx.x) * 4, a.largest + from, valid);
    }
    mask.template stage<kThreads>(known + 3 * 64 * 4, other);
  };

  int column[2], key[2];
  float sums_k[8][4], sums_v[8][4];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    column[half] = mine + lane / 4 + 8 * half;
    key[half] = mask.key(column[half]);
  }
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) sums_k[n][e] = sums_v[n][e] = 0;
  }

  // In a causal mask the rows before this block are zero, except for global tokens.
  constexpr bool kNothingBefore = kKind == TileKind::causal && kWeighting != Weighting::additive;
  const int begin = kNothingBefore && a.mask.globals == 0 ? first : 0;
  const bool held_line = mask.is_line(mine, 16);
  mask.hold(first, 64, begin);
  load(0, begin);
  commit_copies();
  mask.advance();
  for (int other = begin, stage = 0; other < nodes; other += 64, stage = stage == kStages - 1 ? 0 : stage + 1) {
    const uint32_t at = stages + stage * stage_bytes;
    const FusedTile<64> queries{at}, grads{at + kTileBytes};
    wait_for_copies<0>();
    publish_to_tensor_cores();
    __syncthreads();
    float s[8][4], p[8][4];
    begin_products();
    start_scores<T>(s, keys, queries);
    start_scores<T>(p, values, grads);
    commit_products();
    if (other + 64 < nodes) load(stage == kStages - 1 ? 0 : stage + 1, other + 64);
    commit_copies();
    const float* known = reinterpret_cast<const float*>(shared + (at - room) + 2 * kTileBytes);
    mask.enter(known + 3 * 64, first, other);
    constexpr bool kEarly = kColumnBlocks == 2;  // where registers are left for it
    bool line[2];
    float near[2][5][2];
#pragma unroll
    for (int part = 0; part < 2; ++part) line[part] = mask.is_line_with(held_line, part * kFusedChunk);
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      if (kEarly && line[part]) mask.near(near[part], key[0] + lane / 4, part * kFusedChunk);
    }
    wait_for_products<0>();
    hold_back(s);
    hold_back(p);
#pragma unroll
    for (int chunk = 0; chunk < 64; chunk += kFusedChunk) {
      const auto pull = [&](const auto& mask_at) {
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const int place = chunk + n * 8 + lane % 4 * 2, at = chunk / 8 + n;
          const float2 inverse = *reinterpret_cast<const float2*>(known + place);
          const float2 delta = *reinterpret_cast<const float2*>(known + 64 + place);
          float2 largest = {};
          if constexpr (!kKernel) largest = *reinterpret_cast<const float2*>(known + 128 + place);
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const float2 m = mask_at(half, n);
            float &sx = s[at][2 * half], &sy = s[at][2 * half + 1];
            float &px = p[at][2 * half], &py = p[at][2 * half + 1];
            const auto x = pair_gradients<kWeighting>(m.x, sx, px, inverse.x, delta.x, largest.x, a.scale);
            const auto y = pair_gradients<kWeighting>(m.y, sy, py, inverse.y, delta.y, largest.y, a.scale);
            sx = x.weight, px = x.score, sy = y.weight, py = y.score;
          }
        }
      };
      if (line[chunk / kFusedChunk]) {
        if (!kEarly) mask.near(near[chunk / kFusedChunk], key[0] + lane / 4, chunk);
        pull([&](int half, int n) {
          const float(&m)[2] = near[chunk / kFusedChunk][mask.near_place(0, half, n)];
          return float2{m[0], m[1]};
        });
      } else {
        pull([&](int half, int n) { return mask.pair(key[half], column[half], chunk + n * 8 + lane % 4 * 2); });
      }
    }
    uint32_t left_v[4][4], left_k[4][4];
    as_left<T>(left_v, s);
    as_left<T>(left_k, p);
    begin_products();
    start_add<T>(sums_v, left_v, grads);
    start_add<T>(sums_k, left_k, queries);
    commit_products();
    mask.advance();
    wait_for_products<0>();
    hold_back(sums_k);
    hold_back(sums_v);
  }
  const float factor[2] = {1.f, 1.f};
  fused_store<T, 64>(grad_k, slice_of(grad_k, batch, head), mine, nodes, sums_k, factor);
  fused_store<T, 64>(grad_v, slice_of(grad_v, batch, head), mine, nodes, sums_v, factor);
}

}  // namespace topomask::cuda

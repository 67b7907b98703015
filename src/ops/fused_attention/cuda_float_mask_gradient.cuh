#pragma once

#include "ops/fused_attention/cuda_float_rows.cuh"
#include "ops/fused_attention/cuda_group_walk.cuh"
#include "ops/fused_attention/cuda_reduce.cuh"

// The gradient of the values of a mask in float32: a block holds a tile of 64 by 64 of the gradient of M, as in
// cuda_mask_gradient.cuh, and brings 64 columns of its operands at a time.

namespace topomask::cuda {

inline constexpr int kFloatTileThreads = 256;

template <TileKind kKind>
__host__ __device__ constexpr int float_mask_gradient_shared(int length) {
  const int loads = 2 * 64 * FloatTile::stride_of(64) * 4, reduction = 64 * 65 * 4 + (int)kLongestWindow * 4;
  return (loads > reduction ? loads : reduction) +
         (kTableKind<kKind> ? (length < kLongestTable ? length : (int)kLongestTable) * kFloatTileThreads * 4 : 0);
}

template <bool kExact, TileKind kKind>
__global__ void __launch_bounds__(kFloatTileThreads)
    float_mask_gradient_kernel(const __grid_constant__ FusedArgs<float> a,
                               const __grid_constant__ FusedGradArgs<float> g,
                               const __grid_constant__ FusedGroups groups, float* all_sums) {
  constexpr int kTile = 64, kThreads = kFloatTileThreads;
  extern __shared__ __align__(1024) unsigned char shared[];
  const int nodes = (int)a.mask.nodes, globals = (int)a.mask.globals, inner = nodes - globals;
  // A warp holds sixteen rows of one half of the columns.
  const int row = (int)threadIdx.x / 32 % 4 * 16, column = (int)threadIdx.x / 128 * 32, lane = threadIdx.x % 32;
  const int mask_head = slice_of_block(a);
  const bool kernel = a.weighting == Weighting::kernel, additive = a.weighting == Weighting::additive;
  const TileValues<kKind, false> mask(a.mask, mask_head, a.window);
  const FloatTile left{reinterpret_cast<float*>(shared), FloatTile::stride_of(64)};
  const FloatTile right{left.data + 64 * left.stride, left.stride};

  const GroupWalk<kTile> walk(a, groups);
  float* sums = walk.own_copy(all_sums, a.mask, kKind == TileKind::matrix);
  const float* values = a.mask.values + (a.mask.heads == 1 ? 0 : mask_head) * a.mask.length;
  float* histogram = reinterpret_cast<float*>(shared + float_mask_gradient_shared<kKind>(0)) + threadIdx.x;
  const int places = min((int)a.mask.length - groups.first_place, (int)kLongestTable);  // that this launch sums
  if constexpr (kTableKind<kKind>) {
    for (int at = 0; at < places; ++at) histogram[at * kThreads] = 0;
  }
  const TileSums to{reinterpret_cast<float*>(shared), histogram, sums};

  for (int round = 0; walk.has_round(round); ++round) {
    const int group = walk.group_of(round);
    if (group >= groups.groups) continue;
    const int member0 = walk.first_member(group), steps = walk.steps(group);
    float total[4][4] = {};
    for (int step = 0; step < steps; ++step) {
      const typename GroupWalk<kTile>::Step at = walk.step_at(member0, step);
      const int row0 = at.row0, column0 = at.column0, batch = at.batch, head = at.head;
      const int64_t stats = (int64_t)(batch * a.heads + head) * nodes;
      const auto product = [&](float(&result)[4][4], const FusedRows<const float>& x, const FusedRows<const float>& y) {
        for (int chunk = 0; chunk < x.width; chunk += 64) {
          const int width = min(64, x.width - chunk);
          left.load<kThreads>(x.data + slice_of(x, batch, head) + chunk, x.row, width, row0, kTile, nodes);
          right.load<kThreads>(y.data + slice_of(y, batch, head) + chunk, y.row, width, column0, kTile, nodes);
          commit_copies();
          wait_for_copies<0>();
          __syncthreads();
          float_scores<kExact>(result, left, row, right, column, width);
          __syncthreads();
        }
      };
      float s[4][4] = {}, p[4][4] = {};
      product(s, a.q, a.k);
      product(p, g.grad, a.v);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int i = row0 + row + lane / 4 + 8 * half, known = min(i, nodes - 1);
        const float inverse = i < nodes ? g.inverse[stats + known] : 0.f, delta = g.delta[stats + known];
        const float largest = kernel ? 0.f : a.largest[stats + known];
#pragma unroll
        for (int n = 0; n < 4; ++n) {
#pragma unroll
          for (int e = 2 * half; e < 2 * half + 2; ++e) {
            const int j = column0 + column + n * 8 + lane % 4 * 2 + e % 2;
            float base = s[n][e];
            if (!kernel) {
              const float m = additive && j < nodes ? float_mask_value(a.mask, values, known, j) : 0.f;
              const float x = base * a.scale + m - largest;
              base = expf(additive ? x : fminf(x, kLargestExponent<float>));
            }
            if (i < nodes && j < nodes) total[n][e] += base * ((p[n][e] - delta) * inverse);
          }
        }
      }
    }
    const int row0 = walk.row_of(member0), column0 = walk.column_of(member0);
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int r = row + lane / 4 + e / 2 * 8, c = column + n * 8 + lane % 4 * 2 + e % 2;
        reduce_value<kTile, kThreads>(to, mask, r, c, row0 + r - globals, column0 + c - globals, inner,
                                      groups.first_place, places, total[n][e]);
      }
    }
    if constexpr (kKind == TileKind::offsets) {
      __syncthreads();
      reduce_to_offsets<kTile, kThreads>(to.tile, to.tile + kTile * (kTile + 1), a.mask, row0, column0, a.window, sums);
    }
  }
  if constexpr (kTableKind<kKind>) {
    reduce_histograms<kThreads>(histogram - threadIdx.x, places, sums + groups.first_place);
  }
}

}  // namespace topomask::cuda

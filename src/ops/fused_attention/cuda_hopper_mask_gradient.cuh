#pragma once

#include "ops/fused_attention/cuda_group_walk.cuh"
#include "ops/fused_attention/cuda_hopper_rows.cuh"
#include "ops/fused_attention/cuda_reduce.cuh"

// The pass that holds a tile of the gradient of M and steps through the slices, and the tiles of one group, that it is
// a sum over, for rows of up to 64 values. A warpgroup holds 64 rows of the tile. A group is reduced to the parameters
// once, by one block, in a fixed order.

namespace topomask::cuda {

/// Softmax with an additive mask wants M itself: windows of 64 columns each.
template <TileKind kKind, Weighting kWeighting>
__host__ __device__ constexpr int mask_rooms(int tile, int window) {
  return kWeighting == Weighting::additive ? tile / 64 * TileValues<kKind, false>::words(window) * 4 : 0;
}

template <int kTile, TileKind kKind, Weighting kWeighting>
__host__ __device__ constexpr int hopper_mask_gradient_shared(int length, int window) {
  const int loads = 2 * kTile * 4 * 128 + mask_rooms<kKind, kWeighting>(kTile, window),
            reduction = kTile * (kTile + 1) * 4 + (int)kLongestWindow * 4;
  return (loads > reduction ? loads : reduction) +
         (kTableKind<kKind> ? (length < kLongestTable ? length : (int)kLongestTable) * kTile * 2 * 4 : 0);
}

/// Threads of a block: a warpgroup holds 64 rows and all columns of its tile, or 64 of them where exponentials want
/// more warps that wait for one another.
template <int kTile, Weighting kWeighting>
__host__ __device__ constexpr int mask_gradient_threads() {
  return kTile == 128 && kWeighting != Weighting::kernel ? 512 : kTile * 2;
}

template <class T, int kTile, TileKind kKind, Weighting kWeighting>
__global__ void __launch_bounds__(mask_gradient_threads<kTile, kWeighting>(), kTile == 64 ? 3 : 1)
    hopper_mask_gradient_kernel(const __grid_constant__ FusedArgs<T> a, const __grid_constant__ FusedGradArgs<T> g,
                                const __grid_constant__ FusedGroups groups, float* all_sums) {
  constexpr int kThreads = mask_gradient_threads<kTile, kWeighting>(), kRowGroups = kTile / 64;
  constexpr int kHalves = kTile / 64 / (kThreads / (128 * kRowGroups)), kBytes = kTile * 128, kStage = 4 * kBytes;
  constexpr bool kWantsMask = kWeighting == Weighting::additive;
  extern __shared__ __align__(1024) unsigned char shared[];
  const uint32_t room = uniform_shared_address(shared);
  const int nodes = (int)a.mask.nodes, globals = (int)a.mask.globals, inner = nodes - globals;
  const int warp = threadIdx.x / 32 % (kTile / 16), lane = threadIdx.x % 32;
  // The rows and columns of this warpgroup in the tile, in units of 64.
  const int warpgroup = kThreads == 128 ? 0 : __shfl_sync(~0u, (int)threadIdx.x / 128, 0);
  const int rows_at = warpgroup % kRowGroups, columns_at = warpgroup / kRowGroups;
  TileValues<kKind, false> mask(a.mask, slice_of_block(a), a.window);
  const int mask_bytes = mask.words(a.window) * 4;

  const GroupWalk<kTile> walk(a, groups);
  float* sums = walk.own_copy(all_sums, a.mask, kKind == TileKind::matrix);
  float* histogram =
      reinterpret_cast<float*>(shared + hopper_mask_gradient_shared<kTile, kKind, kWeighting>(0, a.window)) +
      threadIdx.x;
  const int places = min((int)a.mask.length - groups.first_place, (int)kLongestTable);  // that this launch sums
  if constexpr (kTableKind<kKind>) {
    for (int at = 0; at < places; ++at) histogram[at * kThreads] = 0;
  }
  const TileSums to{reinterpret_cast<float*>(shared), histogram, sums};

  for (int round = 0; walk.has_round(round); ++round) {
    const int group = walk.group_of(round);
    if (group >= groups.groups) continue;
    const int member0 = walk.first_member(group), steps = walk.steps(group);
    using Step = typename GroupWalk<kTile>::Step;  // known a step before it is loaded
    float inverse[2], delta[2], largest[2] = {}, next_inverse[2], next_delta[2], next_largest[2] = {};
    const auto load = [&](const Step& s, int stage) {
      const uint32_t at = room + stage * kStage;
      const auto copy_rows = [&](const FusedRows<const T>& rows, uint32_t to, int first) {
        RowCopies<kThreads>(rows.data + slice_of(rows, s.batch, s.head), rows.row, rows.width)
            .template start<kTile>(to, first, nodes);
      };
      copy_rows(a.q, at, s.row0);
      copy_rows(a.k, at + kBytes, s.column0);
      copy_rows(g.grad, at + 2 * kBytes, s.row0);
      copy_rows(a.v, at + 3 * kBytes, s.column0);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int i = s.row0 + warp * 16 + lane / 4 + 8 * half;
        const int64_t from = (int64_t)(s.batch * a.heads + s.head) * nodes + min(i, nodes - 1);
        next_inverse[half] = i < nodes ? g.inverse[from] : 0;
        next_delta[half] = g.delta[from] * next_inverse[half];
        if constexpr (kWeighting != Weighting::kernel) next_largest[half] = a.largest[from] * kFusedLog2e;
      }
    };

    float total[kHalves][8][4];
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) total[h][n][e] = 0;
      }
    }
    Step now = walk.step_at(member0, 0), next = walk.step_at(member0, min(1, max(steps - 1, 0)));
    const int row0 = now.row0, column0 = now.column0;
    TileValues<kKind, false> staged[2] = {mask, mask};
    int key[2] = {};
    bool held_line = false;
    if constexpr (kWantsMask) {  // the same for all tiles of the group
#pragma unroll
      for (int h = 0; h < kRowGroups; ++h) {
        const int other = min(column0 + h * 64, nodes - 1);
        staged[h].hold(row0, kTile, other);
        staged[h].template stage<kThreads>(room + 2 * kStage + h * mask_bytes, other);
        staged[h].advance();
        staged[h].enter(reinterpret_cast<const float*>(shared + 2 * kStage + h * mask_bytes), row0, column0 + h * 64);
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) key[half] = mask.key(row0 + warp * 16 + lane / 4 + 8 * half);
      held_line = mask.is_line(row0 + warp * 16, 16);
    }
    const TileValues<kKind, false> tiles[2] = {columns_at == 0 ? staged[0] : staged[1], staged[1]};
    if (steps > 0) load(now, 0);
    commit_copies();
    for (int step = 0; step < steps; ++step) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        inverse[half] = next_inverse[half], delta[half] = next_delta[half], largest[half] = next_largest[half];
      }
      wait_for_copies<0>();
      publish_to_tensor_cores();
      __syncthreads();
      const uint32_t at = room + step % 2 * kStage, mine = at + rows_at * kTileBytes;
      float s[kHalves][8][4], p[kHalves][8][4];
      begin_products();
#pragma unroll
      for (int h = 0; h < kHalves; ++h) {
        start_scores<T>(s[h], FusedTile<64>{mine}, FusedTile<64>{at + kBytes + (columns_at + h) * kTileBytes});
        start_scores<T>(p[h], FusedTile<64>{mine + 2 * kBytes},
                        FusedTile<64>{at + 3 * kBytes + (columns_at + h) * kTileBytes});
        commit_products();
      }
      if (step + 1 < steps) load(next, (step + 1) % 2);
      commit_copies();
      next = walk.step_at(member0, min(step + 2, steps - 1));
#pragma unroll
      for (int h = 0; h < kHalves; ++h) {
        if (h == kHalves - 1) {
          wait_for_products<0>();
        } else {
          wait_for_products<1>();
        }
        hold_back(s[h]);
        hold_back(p[h]);
#pragma unroll
        for (int n = 0; n < 8; n += 4) {
          float near[5][2];
          bool line = false;
          if constexpr (kWantsMask) {
            line = tiles[h].is_line_with(held_line, n * 8);
            if (line) tiles[h].near(near, key[0] - lane / 4, n * 8);
          }
#pragma unroll
          for (int c = 0; c < 4; ++c) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              float2 m = {};
              if constexpr (kWantsMask) {
                if (line) {
                  const int x = TileValues<kKind, false>::near_place(0, half, c);
                  m = {near[x][0], near[x][1]};
                } else {
                  const int row = row0 + warp * 16 + lane / 4 + 8 * half, column = (n + c) * 8 + lane % 4 * 2;
                  m = tiles[h].is_whole() ? tiles[h].matrix_pair(key[half], column)
                                          : tiles[h].pair(key[half], row, column);
                }
              }
#pragma unroll
              for (int e = 0; e < 2; ++e) {
                float x = s[h][n + c][2 * half + e];
                if constexpr (kWeighting == Weighting::additive) {
                  x = fused_power(x * (a.scale * kFusedLog2e) + ((e == 0 ? m.x : m.y) * kFusedLog2e - largest[half]));
                } else if constexpr (kWeighting == Weighting::multiplicative) {
                  x = fused_exponential<kWeighting>(x * (a.scale * kFusedLog2e), largest[half]);
                }
                total[h][n + c][2 * half + e] += x * (p[h][n + c][2 * half + e] * inverse[half] - delta[half]);
              }
            }
          }
        }
      }
    }
    wait_for_copies<0>();
    __syncthreads();

#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int row = warp * 16 + lane / 4 + e / 2 * 8,
                    column = (columns_at + h) * 64 + n * 8 + lane % 4 * 2 + e % 2;
          reduce_value<kTile, kThreads>(to, mask, row, column, row0 + row - globals, column0 + column - globals, inner,
                                        groups.first_place, places, total[h][n][e]);
        }
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

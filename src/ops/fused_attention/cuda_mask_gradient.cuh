#pragma once

#include "ops/fused_attention/cuda_group_walk.cuh"
#include "ops/fused_attention/cuda_reduce.cuh"

// The pass that holds a tile of the gradient of M and steps through the slices, and the tiles of one group, that it is
// a sum over. A group is reduced to the parameters once, by one block, in a fixed order.

namespace topomask::cuda {

template <int kTile, int kM, int kD, TileKind kKind>
__host__ __device__ constexpr int mask_gradient_shared(int length) {
  const int loads = 2 * kTile * (2 * kM + 2 * kD) * 2, reduction = kTile * (kTile + 1) * 4 + (int)kLongestWindow * 4;
  return (loads > reduction ? loads : reduction) +
         (kTableKind<kKind> ? (length < kLongestTable ? length : (int)kLongestTable) * kTile * 4 * 4 : 0);
}

template <class T, int kTile, int kM, int kD, TileKind kKind, Weighting kWeighting>
__global__ void __launch_bounds__(kTile * 4)
    fused_mask_gradient_kernel(const __grid_constant__ FusedArgs<T> a, const __grid_constant__ FusedGradArgs<T> g,
                               const __grid_constant__ FusedGroups groups, float* all_sums) {
  constexpr int kThreadCount = kTile * 4;
  constexpr int kFeatureBytes = kTile * kM * 2, kValueBytes = kTile * kD * 2,
                kStage = 2 * (kFeatureBytes + kValueBytes);
  extern __shared__ __align__(1024) unsigned char shared[];
  const uint32_t room = shared_address(shared);
  const int nodes = (int)a.mask.nodes, globals = (int)a.mask.globals, inner = nodes - globals;
  // A warp holds sixteen rows of one half of the columns.
  constexpr int kColumns = kTile / 2;
  const int warp = threadIdx.x / 32 % (kTile / 16), lane = threadIdx.x % 32;
  const int half_column = threadIdx.x / 32 / (kTile / 16) * kColumns;
  const TileValues<kKind, false> mask(a.mask, slice_of_block(a), a.window);

  const GroupWalk<kTile> walk(a, groups);
  float* sums = walk.own_copy(all_sums, a.mask, kKind == TileKind::matrix);
  float* histogram = reinterpret_cast<float*>(shared + mask_gradient_shared<kTile, kM, kD, kKind>(0)) + threadIdx.x;
  const int places = min((int)a.mask.length - groups.first_place, (int)kLongestTable);  // that this launch sums
  if constexpr (kTableKind<kKind>) {
    for (int at = 0; at < places; ++at) histogram[at * kThreadCount] = 0;
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
      FusedTile<kM>{at}.template load<kThreadCount>(a.q.data + slice_of(a.q, s.batch, s.head), a.q.row, a.q.width,
                                                    s.row0, kTile, nodes);
      FusedTile<kM>{at + kFeatureBytes}.template load<kThreadCount>(a.k.data + slice_of(a.k, s.batch, s.head), a.k.row,
                                                                    a.k.width, s.column0, kTile, nodes);
      FusedTile<kD>{at + 2 * kFeatureBytes}.template load<kThreadCount>(g.grad.data + slice_of(g.grad, s.batch, s.head),
                                                                        g.grad.row, g.grad.width, s.row0, kTile, nodes);
      FusedTile<kD>{at + 2 * kFeatureBytes + kValueBytes}.template load<kThreadCount>(
          a.v.data + slice_of(a.v, s.batch, s.head), a.v.row, a.v.width, s.column0, kTile, nodes);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int i = s.row0 + warp * 16 + lane / 4 + 8 * half;
        const int64_t from = (int64_t)(s.batch * a.heads + s.head) * nodes + min(i, nodes - 1);
        next_inverse[half] = i < nodes ? g.inverse[from] : 0;
        next_delta[half] = g.delta[from];
        if constexpr (kWeighting != Weighting::kernel) next_largest[half] = a.largest[from];
      }
    };

    float total[kColumns / 8][4];
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) total[n][e] = 0;
    }
    Step now = walk.step_at(member0, 0), next = walk.step_at(member0, min(1, max(steps - 1, 0)));
    if (steps > 0) load(now, 0);
    commit_copies();
    for (int step = 0; step < steps; ++step) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        inverse[half] = next_inverse[half], delta[half] = next_delta[half], largest[half] = next_largest[half];
      }
      const int row0 = now.row0, column0 = now.column0;
      if (step + 1 < steps) load(next, (step + 1) % 2);
      commit_copies();
      now = next;
      next = walk.step_at(member0, min(step + 2, steps - 1));
      wait_for_copies<1>();
      __syncthreads();
      const uint32_t at = room + step % 2 * kStage;
      const FusedTile<kM> queries{at}, keys{at + kFeatureBytes};
      const FusedTile<kD> grads{at + 2 * kFeatureBytes}, values{at + 2 * kFeatureBytes + kValueBytes};
      uint32_t q[1][kM / 16][4], grad[1][kD / 16][4];
#pragma unroll
      for (int k = 0; k < kM / 16; ++k) queries.left(q[0][k], warp * 16, k);
#pragma unroll
      for (int k = 0; k < kD / 16; ++k) grads.left(grad[0][k], warp * 16, k);
#pragma unroll
      for (int chunk = 0; chunk < kColumns; chunk += kFusedChunk) {
        float s[1][4][4], p[1][4][4];
        fused_scores<T, kM, 1>(s, q, keys, half_column + chunk);
        fused_scores<T, kD, 1>(p, grad, values, half_column + chunk);
#pragma unroll
        for (int n = 0; n < 4; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            float m = 0;
            if constexpr (kWeighting == Weighting::additive) {
              m = mask.direct(row0 + warp * 16 + lane / 4 + e / 2 * 8,
                              column0 + half_column + chunk + n * 8 + lane % 4 * 2 + e % 2);
            }
            total[chunk / 8 + n][e] += pair_gradients<kWeighting>(m, s[0][n][e], p[0][n][e], inverse[e / 2],
                                                                  delta[e / 2], largest[e / 2], a.scale)
                                           .mask;
          }
        }
      }
      __syncthreads();
    }
    wait_for_copies<0>();
    __syncthreads();

    const int row0 = walk.row_of(member0), column0 = walk.column_of(member0);
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = warp * 16 + lane / 4 + e / 2 * 8, column = half_column + n * 8 + lane % 4 * 2 + e % 2;
        const int i = row0 + row - globals, j = column0 + column - globals;
        reduce_value<kTile, kThreadCount>(to, mask, row, column, i, j, inner, groups.first_place, places, total[n][e]);
      }
    }
    if constexpr (kKind == TileKind::offsets) {
      __syncthreads();
      reduce_to_offsets<kTile, kThreadCount>(to.tile, to.tile + kTile * (kTile + 1), a.mask, row0, column0, a.window,
                                             sums);
    }
  }
  if constexpr (kTableKind<kKind>) {
    reduce_histograms<kThreadCount>(histogram - threadIdx.x, places, sums + groups.first_place);
  }
}

}  // namespace topomask::cuda

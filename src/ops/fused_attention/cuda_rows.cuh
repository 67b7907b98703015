#pragma once

#include "core/cuda/clamped.cuh"
#include "ops/fused_attention/cuda_mask.cuh"

// The passes that hold rows (queries) and step through columns (keys): the forward pass and the gradient of q.

namespace topomask::cuda {

inline constexpr int kFusedThreads = 128;

template <int kFrags, int kM, int kD, TileKind kKind>
constexpr int rows_shared(int window) {
  const int stage = kFusedColumns * (kM + kD) * 2 + TileValues<kKind, false>::words(window) * 4;
  const int held = 64 * kFrags * (kM + kD) * 2;
  return held > 2 * stage ? held : 2 * stage;
}

/// A block holds 64 kFrags rows, a warp 16 kFrags of them. Backward: the weights are the gradients of the scores, and
/// what they weigh are the keys instead of the values.
template <class T, int kM, int kD, int kFrags, TileKind kKind, Weighting kWeighting, bool kBackward>
__global__ void __launch_bounds__(kFusedThreads, kFusedBlocks)
    fused_rows_kernel(const __grid_constant__ FusedArgs<T> a, const __grid_constant__ FusedGradArgs<T> g,
                      const __grid_constant__ FusedRows<T> result) {
  constexpr bool kKernel = kWeighting == Weighting::kernel, kScores = !kBackward || !kKernel;
  constexpr int kRows = 64 * kFrags, kResult = kBackward ? kM : kD;
  constexpr int kKeyBytes = kFusedColumns * kM * 2, kValueBytes = kFusedColumns * kD * 2;
  extern __shared__ __align__(1024) unsigned char shared[];
  const uint32_t room = shared_address(shared);
  const int nodes = (int)a.mask.nodes, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int slice = slice_of_block(a), batch = slice / a.heads, head = slice % a.heads, first = blockIdx.x * kRows;
  const int64_t stats = (int64_t)slice * nodes;
  const T *k = a.k.data + slice_of(a.k, batch, head), *v = a.v.data + slice_of(a.v, batch, head);

  uint32_t q[kFrags][kM / 16][4], grad[kFrags][kD / 16][4];
  {
    const FusedTile<kM> queries{room};
    const FusedTile<kD> grads{room + kRows * kM * 2};
    if constexpr (kScores) {
      queries.template load<kFusedThreads>(a.q.data + slice_of(a.q, batch, head), a.q.row, a.q.width, first, kRows,
                                           nodes);
    }
    if constexpr (kBackward) {
      grads.template load<kFusedThreads>(g.grad.data + slice_of(g.grad, batch, head), g.grad.row, g.grad.width, first,
                                         kRows, nodes);
    }
    commit_copies();
    wait_for_copies<0>();
    __syncthreads();
#pragma unroll
    for (int f = 0; f < kFrags; ++f) {
      if constexpr (kScores) {
#pragma unroll
        for (int step = 0; step < kM / 16; ++step) queries.left(q[f][step], (warp * kFrags + f) * 16, step);
      }
      if constexpr (kBackward) {
#pragma unroll
        for (int step = 0; step < kD / 16; ++step) grads.left(grad[f][step], (warp * kFrags + f) * 16, step);
      }
    }
    __syncthreads();
  }

  TileValues<kKind, false> mask(a.mask, head, a.window);
  const int words = mask.words(a.window);
  const auto stage_at = [&](int s) { return room + s * (kKeyBytes + kValueBytes + words * 4); };
  const auto load = [&](int s, int other) {
    const uint32_t at = stage_at(s);
    FusedTile<kM>{at}.template load<kFusedThreads>(k, a.k.row, a.k.width, other, kFusedColumns, nodes);
    FusedTile<kD>{at + kKeyBytes}.template load<kFusedThreads>(v, a.v.row, a.v.width, other, kFusedColumns, nodes);
    mask.template stage<kFusedThreads>(at + kKeyBytes + kValueBytes, other);
  };

  int row[kFrags][2], key[kFrags][2];
  float inverse[kFrags][2], delta[kFrags][2], largest[kFrags][2], total[kFrags][2];
  float sums[kFrags][kResult / 8][4];
#pragma unroll
  for (int f = 0; f < kFrags; ++f) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = first + (warp * kFrags + f) * 16 + lane / 4 + 8 * half, known = min(i, nodes - 1);
      row[f][half] = i;
      key[f][half] = mask.key(i);
      total[f][half] = 0;
      largest[f][half] = kBackward && !kKernel ? a.largest[stats + known] * kFusedLog2e : -INFINITY;
      inverse[f][half] = kBackward ? g.inverse[stats + known] * (kKernel ? 1.f : a.scale) : 0;
      delta[f][half] = kBackward ? g.delta[stats + known] * inverse[f][half] : 0;
    }
#pragma unroll
    for (int n = 0; n < kResult / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[f][n][e] = 0;
    }
  }

  const bool held_line = mask.is_line(first + warp * kFrags * 16, kFrags * 16);
  constexpr bool kNothingBehind = kKind == TileKind::causal && kWeighting != Weighting::additive;
  const int end = kNothingBehind && first >= a.mask.globals ? min(nodes, first + kRows) : nodes;
  mask.hold(first, kRows, 0);
  load(0, 0);
  commit_copies();
  mask.advance();
  for (int other = 0, s = 0; other < end; other += kFusedColumns, s ^= 1) {
    const uint32_t at = stage_at(s);
    if (other + kFusedColumns < end) load(s ^ 1, other + kFusedColumns);
    commit_copies();
    wait_for_copies<1>();
    __syncthreads();
    mask.enter(reinterpret_cast<const float*>(shared + (at - room) + kKeyBytes + kValueBytes), first, other);
    const FusedTile<kM> keys{at};
    const FusedTile<kD> values{at + kKeyBytes};
#pragma unroll
    for (int chunk = 0; chunk < kFusedColumns; chunk += kFusedChunk) {
      float s_[kFrags][4][4], p[kFrags][4][4];
      if constexpr (kScores) fused_scores<T, kM, kFrags>(s_, q, keys, chunk);
      if constexpr (kBackward) fused_scores<T, kD, kFrags>(p, grad, values, chunk);
      const bool line = mask.is_line_with(held_line, chunk);
      if constexpr (kKernel) {
        const auto weigh = [&](const auto& mask_at) {
#pragma unroll
          for (int f = 0; f < kFrags; ++f) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
#pragma unroll
              for (int n = 0; n < 4; ++n) {
                const float2 m = mask_at(f, half, n);
                if constexpr (kBackward) {
                  float &x = p[f][n][2 * half], &y = p[f][n][2 * half + 1];
                  x = m.x * (x * inverse[f][half] - delta[f][half]);  // delta times inverse
                  y = m.y * (y * inverse[f][half] - delta[f][half]);
                } else {
                  float &x = s_[f][n][2 * half], &y = s_[f][n][2 * half + 1];
                  x *= m.x, y *= m.y;
                  total[f][half] += x + y;
                }
              }
            }
          }
        };
        if (line) {
          float near[3 + 2 * kFrags][2];
          mask.near(near, key[0][0] - lane / 4, chunk);
          weigh([&](int f, int half, int n) {
            const int x = mask.near_place(f, half, n);
            return float2{near[x][0], near[x][1]};
          });
        } else if (mask.is_whole()) {
          weigh([&](int f, int half, int n) { return mask.matrix_pair(key[f][half], chunk + n * 8 + lane % 4 * 2); });
        } else {
          weigh([&](int f, int half, int n) {
            return mask.pair(key[f][half], row[f][half], chunk + n * 8 + lane % 4 * 2);
          });
        }
      } else {
#pragma unroll
        for (int f = 0; f < kFrags; ++f) {
          float2 m[2][4];
          if (line) {
            float near[5][2];
            mask.near(near, key[f][0] - lane / 4, chunk);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
#pragma unroll
              for (int n = 0; n < 4; ++n) {
                const int x = mask.near_place(0, half, n);
                m[half][n] = {near[x][0], near[x][1]};
              }
            }
          } else {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
#pragma unroll
              for (int n = 0; n < 4; ++n) {
                m[half][n] = mask.pair(key[f][half], row[f][half], chunk + n * 8 + lane % 4 * 2);
              }
            }
          }
          // Exponents times log2(e); columns past the last node get weight 0.
          const float scale = a.scale * kFusedLog2e;
          const bool edge = other + kFusedColumns > nodes;
#pragma unroll
          for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int n = 0; n < 4; ++n) {
              float &x = s_[f][n][2 * half], &y = s_[f][n][2 * half + 1];
              if constexpr (kWeighting == Weighting::additive) {
                x = x * scale + m[half][n].x * kFusedLog2e;
                y = y * scale + m[half][n].y * kFusedLog2e;
              } else {
                x *= scale, y *= scale;
              }
              if (edge) {
                const int j = other + chunk + n * 8 + lane % 4 * 2;
                if (j >= nodes) x = -INFINITY, m[half][n].x = 0;
                if (j + 1 >= nodes) y = -INFINITY, m[half][n].y = 0;
              }
            }
          }
          if constexpr (!kBackward) {
            float most[2];
            bool grows = false;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              most[half] = largest[f][half];
#pragma unroll
              for (int n = 0; n < 4; ++n) {
                const float x = s_[f][n][2 * half], y = s_[f][n][2 * half + 1];
                if constexpr (kWeighting == Weighting::additive) {
                  most[half] = fmaxf(most[half], fmaxf(x, y));
                } else {
                  if (m[half][n].x != 0) most[half] = fmaxf(most[half], x);
                  if (m[half][n].y != 0) most[half] = fmaxf(most[half], y);
                }
              }
              most[half] = fmaxf(most[half], __shfl_xor_sync(~0u, most[half], 1));
              most[half] = fmaxf(most[half], __shfl_xor_sync(~0u, most[half], 2));
              grows |= most[half] != largest[f][half];
            }
            if (__any_sync(~0u, grows)) {
#pragma unroll
              for (int half = 0; half < 2; ++half) {
                const float keep = most[half] == largest[f][half] ? 1.f : fused_power(largest[f][half] - most[half]);
                largest[f][half] = most[half];
                total[f][half] *= keep;
#pragma unroll
                for (int n = 0; n < kResult / 8; ++n) {
                  sums[f][n][2 * half] *= keep;
                  sums[f][n][2 * half + 1] *= keep;
                }
              }
            }
          }
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const float max = largest[f][half] == -INFINITY ? 0.f : largest[f][half];
#pragma unroll
            for (int n = 0; n < 4; ++n) {
#pragma unroll
              for (int e = 0; e < 2; ++e) {
                float& s = s_[f][n][2 * half + e];
                float weight = fused_exponential<kWeighting>(s, max);
                if constexpr (kWeighting == Weighting::multiplicative) weight *= e == 0 ? m[half][n].x : m[half][n].y;
                if constexpr (kBackward) {
                  float& x = p[f][n][2 * half + e];
                  x = weight * (x * inverse[f][half] - delta[f][half]);  // both times the scale
                } else {
                  total[f][half] += weight;
                  s = weight;
                }
              }
            }
          }
        }
      }
      if constexpr (kBackward) {
        fused_add<T, kM, kFrags>(sums, p, keys, chunk);
      } else {
        fused_add<T, kD, kFrags>(sums, s_, values, chunk);
      }
    }
    mask.advance();
    __syncthreads();
  }

#pragma unroll
  for (int f = 0; f < kFrags; ++f) {
    float factor[2] = {1.f, 1.f};
    if constexpr (!kBackward) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float d = total[f][half];
        d += __shfl_xor_sync(~0u, d, 1);
        d += __shfl_xor_sync(~0u, d, 2);
        factor[half] = 1.f / (kWeighting == Weighting::additive ? d : clamped(d, a.eps));
        if (lane % 4 == 0 && row[f][half] < nodes) {
          a.denominator[stats + row[f][half]] = d;
          if constexpr (!kKernel) {
            a.largest[stats + row[f][half]] = largest[f][half] == -INFINITY ? 0 : largest[f][half] / kFusedLog2e;
          }
        }
      }
    }
    fused_store<T, kResult>(result, slice_of(result, batch, head), first + (warp * kFrags + f) * 16, nodes, sums[f],
                            factor);
  }
}

}  // namespace topomask::cuda

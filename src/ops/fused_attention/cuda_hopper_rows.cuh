#pragma once

#include "core/cuda/clamped.cuh"
#include "ops/fused_attention/cuda_mask.cuh"
#include "ops/fused_attention/cuda_warpgroup.cuh"

// The passes that hold rows (queries) and step through columns (keys), for rows of up to 64 values: the forward pass
// and the gradient of q. A warpgroup holds 64 rows; the groups of a block share what they step through. The product
// with a step's weights runs on while the next step begins.

namespace topomask::cuda {

inline constexpr int kStages = 3, kTileBytes = 64 * 64 * 2;

/// The bytes of a stage: two tiles and some words; tiles begin at multiples of 1024 bytes.
__host__ __device__ constexpr int stage_bytes_of(int words) {
  return 2 * kTileBytes + (words * 4 + 1023) / 1024 * 1024;
}

/// Copies of rows of up to 64 values into tiles, an eighth of a row a thread. Where a thread copies from and to is
/// worked out once: what was computed for each packet took as long as the products.
template <int kThreads>
struct RowCopies {
  template <class T>
  __device__ __forceinline__ RowCopies(const T* slice, int64_t row_stride, int width)
      : inside((int)threadIdx.x % 8 * 8 < width),
        from(reinterpret_cast<const char*>(slice + (inside ? threadIdx.x % 8 * 8 : 0))),
        stride((int)(row_stride * (int64_t)sizeof(T))) {}

  /// Starts the copy of kRows rows from `first` on; rows and columns beyond the ends are zero.
  template <int kRows>
  __device__ __forceinline__ void start(uint32_t tile, int first, int nodes) const {
    const int row = (int)threadIdx.x / 8;
    const uint32_t to = tile + row * 128 + ((threadIdx.x % 8) ^ (row & 7)) * 16;
#pragma unroll
    for (int at = 0; at < kRows; at += kThreads / 8) {
      const int node = first + row + at;
      copy_async_16(to + at * 128, from + (int64_t)min(node, nodes - 1) * stride, inside && node < nodes);
    }
  }

  bool inside;
  const char* from;
  int stride;  ///< bytes
};

/// Warpgroups of a block, and blocks that share a multiprocessor: where softmax wants more registers, fewer groups.
__host__ __device__ constexpr int row_groups(Weighting weighting, bool backward) {
  return backward && weighting != Weighting::kernel ? 1 : 2;
}
__host__ __device__ constexpr int row_blocks(Weighting weighting, bool backward) {
  return backward && weighting != Weighting::kernel ? 3 : 2;
}

template <TileKind kKind>
constexpr int hopper_rows_shared(int groups, bool backward, int window) {
  const int held = groups * kTileBytes * (backward ? 2 : 1);
  return held + kStages * stage_bytes_of(TileValues<kKind, false>::words(window));
}

/// Backward: the weights are the gradients of the scores, and what they weigh are the keys instead of the values.
template <class T, TileKind kKind, Weighting kWeighting, bool kBackward>
__global__ void __launch_bounds__(128 * row_groups(kWeighting, kBackward), row_blocks(kWeighting, kBackward))
    hopper_rows_kernel(const __grid_constant__ FusedArgs<T> a, const __grid_constant__ FusedGradArgs<T> g,
                       const __grid_constant__ FusedRows<T> result) {
  constexpr bool kKernel = kWeighting == Weighting::kernel, kScores = !kBackward || !kKernel;
  constexpr int kGroups = row_groups(kWeighting, kBackward), kThreads = 128 * kGroups, kRows = 64 * kGroups;
  extern __shared__ __align__(1024) unsigned char shared[];
  const uint32_t room = uniform_shared_address(shared);
  const int nodes = (int)a.mask.nodes, lane = threadIdx.x % 32;
  const int group = kGroups == 1 ? 0 : __shfl_sync(~0u, (int)threadIdx.x / 128, 0);
  const int slice = slice_of_block(a), batch = slice / a.heads, head = slice % a.heads, first = blockIdx.x * kRows;
  const int mine = first + (int)threadIdx.x / 32 * 16;  // the first of the warp's sixteen rows
  const int64_t stats = (int64_t)slice * nodes;
  const RowCopies<kThreads> k(a.k.data + slice_of(a.k, batch, head), a.k.row, a.k.width);
  const RowCopies<kThreads> v(a.v.data + slice_of(a.v, batch, head), a.v.row, a.v.width);

  // Held rows: queries, followed by the gradients of the output.
  const uint32_t held_grads = room + (kScores ? kRows * 128 : 0);
  if constexpr (kScores) {
    FusedTile<64>{room}.template load<kThreads>(a.q.data + slice_of(a.q, batch, head), a.q.row, a.q.width, first, kRows,
                                                nodes);
  }
  if constexpr (kBackward) {
    FusedTile<64>{held_grads}.template load<kThreads>(g.grad.data + slice_of(g.grad, batch, head), g.grad.row,
                                                      g.grad.width, first, kRows, nodes);
  }
  const FusedTile<64> queries{room + group * kTileBytes}, grads{held_grads + group * kTileBytes};

  TileValues<kKind, false> mask(a.mask, head, a.window);
  const int stage_bytes = stage_bytes_of(mask.words(a.window));
  const uint32_t stages = room + kGroups * kTileBytes * (kBackward ? 2 : 1);
  const auto load = [&](int s, int other) {
    const uint32_t at = stages + s * stage_bytes;
    k.template start<64>(at, other, nodes);
    v.template start<64>(at + kTileBytes, other, nodes);
    mask.template stage<kThreads>(at + 2 * kTileBytes, other);
  };

  int row[2], key[2];
  float inverse[2], delta[2], largest[2], total[2], sums[8][4];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int i = mine + lane / 4 + 8 * half, known = min(i, nodes - 1);
    row[half] = i;
    key[half] = mask.key(i);
    total[half] = 0;
    largest[half] = kBackward && !kKernel ? a.largest[stats + known] * kFusedLog2e : -INFINITY;
    inverse[half] = kBackward ? g.inverse[stats + known] * (kKernel ? 1.f : a.scale) : 0;
    delta[half] = kBackward ? g.delta[stats + known] * inverse[half] : 0;
  }
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) sums[n][e] = 0;
  }

  const bool held_line = mask.is_line(mine, 16);
  constexpr bool kNothingBehind = kKind == TileKind::causal && kWeighting != Weighting::additive;
  const int end = kNothingBehind && first >= a.mask.globals ? min(nodes, first + kRows) : nodes;
  float s_[8][4], p[8][4];
  // What is known of M before the scores are there is read while they are made, where registers are left for it.
  constexpr bool kEarly = kKernel;
  bool line[2];
  float near[2][5][2];
  const auto enter = [&](int s, int other) {
    const int at = (int)(stages - room) + s * stage_bytes + 2 * kTileBytes;
    mask.enter(reinterpret_cast<const float*>(shared + at), first, other);
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      // After the last step a stage holds codes of an earlier one, which do not belong to its window.
      line[part] = other < end && mask.is_line_with(held_line, part * kFusedChunk);
    }
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      if (kEarly && line[part]) mask.near(near[part], key[0] - lane / 4, part * kFusedChunk);
    }
  };
  const auto start = [&](int s) {
    const uint32_t at = stages + s * stage_bytes;
    if constexpr (kScores) start_scores<T>(s_, queries, FusedTile<64>{at});
    if constexpr (kBackward) start_scores<T>(p, grads, FusedTile<64>{at + kTileBytes});
  };
  const auto wait = [&] {
    wait_for_products<0>();
    if constexpr (kScores) hold_back(s_);
    if constexpr (kBackward) hold_back(p);
  };
  mask.hold(first, kRows, 0);
  load(0, 0);
  commit_copies();
  wait_for_copies<0>();
  publish_to_tensor_cores();
  __syncthreads();
  mask.advance();
  if (64 < end) load(1, 64);
  commit_copies();
  begin_products();
  start(0);
  commit_products();
  enter(0, 0);
  wait();
  for (int other = 0, s = 0; other < end; other += 64) {
    const bool edge = other + 64 > nodes;

    // Exponents of the whole step first: their largest is wanted once.
    const auto each = [&](const auto& f) {  // f(n, half, m) for eight columns of each half
#pragma unroll
      for (int chunk = 0; chunk < 64; chunk += kFusedChunk) {
        if (line[chunk / kFusedChunk]) {
          if (!kEarly) mask.near(near[chunk / kFusedChunk], key[0] - lane / 4, chunk);
#pragma unroll
          for (int n = 0; n < 4; ++n) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              const int x = mask.near_place(0, half, n);
              f(chunk / 8 + n, half, float2{near[chunk / kFusedChunk][x][0], near[chunk / kFusedChunk][x][1]});
            }
          }
        } else {
#pragma unroll
          for (int n = 0; n < 4; ++n) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              const int column = chunk + n * 8 + lane % 4 * 2;
              f(chunk / 8 + n, half,
                mask.is_whole() ? mask.matrix_pair(key[half], column) : mask.pair(key[half], row[half], column));
            }
          }
        }
      }
    };
    if constexpr (kKernel) {
      each([&](int n, int half, float2 m) {
        if constexpr (kBackward) {
          float &x = p[n][2 * half], &y = p[n][2 * half + 1];
          x = m.x * (x * inverse[half] - delta[half]);  // delta times inverse
          y = m.y * (y * inverse[half] - delta[half]);
        } else {
          float &x = s_[n][2 * half], &y = s_[n][2 * half + 1];
          x *= m.x, y *= m.y;
          total[half] += x + y;
        }
      });
    } else {
      const float scale = a.scale * kFusedLog2e;
      float most[2] = {largest[0], largest[1]};
      // Exponents times log2(e). Columns past the last node get weight 0.
      const auto exponents = [&](int n, int half, float2 m) {
        float &x = s_[n][2 * half], &y = s_[n][2 * half + 1];
        if constexpr (kWeighting == Weighting::additive) {
          x = x * scale + m.x * kFusedLog2e;
          y = y * scale + m.y * kFusedLog2e;
        } else {
          x *= scale, y *= scale;
        }
        if (edge) {
          const int j = other + n * 8 + lane % 4 * 2;
          if (j >= nodes) x = -INFINITY;
          if (j + 1 >= nodes) y = -INFINITY;
        }
        if constexpr (kWeighting == Weighting::additive) {
          most[half] = fmaxf(most[half], fmaxf(x, y));
        } else {
          if (m.x != 0) most[half] = fmaxf(most[half], x);
          if (m.y != 0) most[half] = fmaxf(most[half], y);
        }
      };
      const auto weigh = [&](int n, int half, float mx, float my) {
        const float max = largest[half] == -INFINITY ? 0.f : largest[half];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& x = s_[n][2 * half + e];
          float weight = fused_exponential<kWeighting>(x, max);
          if constexpr (kWeighting == Weighting::multiplicative) weight *= e == 0 ? mx : my;
          if constexpr (kBackward) {
            float& y = p[n][2 * half + e];
            y = weight * (y * inverse[half] - delta[half]);  // both times the scale
          } else {
            total[half] += weight;
            x = weight;
          }
        }
      };
      each(exponents);
      if constexpr (!kBackward) {
        bool grows = false;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          most[half] = fmaxf(most[half], __shfl_xor_sync(~0u, most[half], 1));
          most[half] = fmaxf(most[half], __shfl_xor_sync(~0u, most[half], 2));
          grows |= most[half] != largest[half];
        }
        if (__any_sync(~0u, grows)) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const float keep = most[half] == largest[half] ? 1.f : fused_power(largest[half] - most[half]);
            largest[half] = most[half];
            total[half] *= keep;
#pragma unroll
            for (int n = 0; n < 8; ++n) {
              sums[n][2 * half] *= keep;
              sums[n][2 * half + 1] *= keep;
            }
          }
        }
      }
      if constexpr (kWeighting == Weighting::additive) {
#pragma unroll
        for (int n = 0; n < 8; ++n) {
#pragma unroll
          for (int half = 0; half < 2; ++half) weigh(n, half, 1.f, 1.f);
        }
      } else {
        each([&](int n, int half, float2 m) { weigh(n, half, m.x, m.y); });
      }
    }
    uint32_t left[4][4];
    if constexpr (kBackward) {
      as_left<T>(left, p);
    } else {
      as_left<T>(left, s_);
    }
    // This step's sums and the next step's scores are computed together; after the last step the scores are unused.
    wait_for_copies<0>();
    publish_to_tensor_cores();
    __syncthreads();
    const int next = s == kStages - 1 ? 0 : s + 1;
    mask.advance();
    if (other + 128 < end) load(next == kStages - 1 ? 0 : next + 1, other + 128);
    commit_copies();
    begin_products();
    start_add<T>(sums, left, FusedTile<64>{stages + s * stage_bytes + (kBackward ? 0 : kTileBytes)});
    start(next);
    commit_products();
    enter(next, other + 64);
    s = next;
    wait();
    hold_back(sums);
  }

  float factor[2] = {1.f, 1.f};
  if constexpr (!kBackward) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float d = total[half];
      d += __shfl_xor_sync(~0u, d, 1);
      d += __shfl_xor_sync(~0u, d, 2);
      factor[half] = 1.f / (kWeighting == Weighting::additive ? d : clamped(d, a.eps));
      if (lane % 4 == 0 && row[half] < nodes) {
        a.denominator[stats + row[half]] = d;
        if constexpr (!kKernel) {
          a.largest[stats + row[half]] = largest[half] == -INFINITY ? 0 : largest[half] / kFusedLog2e;
        }
      }
    }
  }
  fused_store<T, 64>(result, slice_of(result, batch, head), mine, nodes, sums, factor);
}

}  // namespace topomask::cuda

#pragma once

#include "core/cuda/clamped.cuh"
#include "core/largest_exponent.h"
#include "ops/fused_attention/cuda_float_tile.cuh"

// Fused attention in float32, for every kind of mask and rows of up to 256 values. One kernel for every pass that sums
// over one side of M: it holds 64 rows (or columns), steps through the other side, 32 at a time, makes a weight of each
// pair and adds the other side's rows times the weights. Kinds and weightings are told apart at run time: a tile of M
// is filled in shared memory first, which costs little compared with the products.

namespace topomask::cuda {

enum class FloatPass : int { forward, query, key, value, left, right };

inline constexpr int kFloatHeld = 64, kFloatStep = 32, kFloatThreads = 128;

__host__ __device__ constexpr bool holds_columns(FloatPass pass) {
  return pass == FloatPass::key || pass == FloatPass::value || pass == FloatPass::right;
}
/// Whether <grad_i, v_j> is wanted.
__host__ __device__ constexpr bool wants_gradients(FloatPass pass) {
  return pass != FloatPass::forward && pass != FloatPass::value;
}
__host__ __device__ constexpr bool is_of_factors(FloatPass pass) {
  return pass == FloatPass::left || pass == FloatPass::right;
}

constexpr int float_rows_shared(FloatPass pass, int features, int value_dim) {
  const int a = FloatTile::stride_of(features), b = FloatTile::stride_of(value_dim);
  const int held = kFloatHeld * (a + (wants_gradients(pass) ? b : 0)), other = kFloatStep * (a + b);
  const int factors = is_of_factors(pass) ? kFloatStep * FloatTile::stride_of(64) : 0;
  return (held + other + factors + kFloatHeld * (kFloatStep + 1) + 3 * kFloatStep) * 4;
}

/// Fills tile[held][other] with M, where rows and columns are inside; 0 elsewhere.
template <bool kColumns>
__device__ __forceinline__ void fill_mask(float* tile, const TileMask<float>& mask, int head, int held0, int other0) {
  const int nodes = (int)mask.nodes, globals = (int)mask.globals;
  const float* values = mask.values + (mask.heads == 1 ? 0 : head) * mask.length;
  if (mask.kind != TileKind::factors) {
    const int other = threadIdx.x % kFloatStep, o = other0 + other;
#pragma unroll 4
    for (int held = threadIdx.x / kFloatStep; held < kFloatHeld; held += kFloatThreads / kFloatStep) {
      const int h = held0 + held;
      float m = 0;
      if (h < nodes && o < nodes)
        m = kColumns ? float_mask_value(mask, values, o, h) : float_mask_value(mask, values, h, o);
      tile[held * (kFloatStep + 1) + other] = m;
    }
    return;
  }
  // Four by four pairs a thread.
  const int rank = (int)mask.rank, inner = nodes - globals;
  const float* right = mask.right + (mask.heads == 1 ? 0 : head) * mask.length;
  const int held = (int)threadIdx.x / 8 * 4, other = (int)threadIdx.x % 8 * 4;
  const float *from_held[4], *from_other[4];
#pragma unroll
  for (int x = 0; x < 4; ++x) {
    const int h = min(max(held0 + held + x - globals, 0), inner - 1);
    const int o = min(max(other0 + other + x - globals, 0), inner - 1);
    from_held[x] = (kColumns ? right : values) + (int64_t)h * rank;
    from_other[x] = (kColumns ? values : right) + (int64_t)o * rank;
  }
  float sums[4][4] = {};
  if (inner > 0) {
    for (int r = 0; r < rank; ++r) {
      float h[4], o[4];
#pragma unroll
      for (int x = 0; x < 4; ++x) h[x] = __ldg(from_held[x] + r), o[x] = __ldg(from_other[x] + r);
#pragma unroll
      for (int x = 0; x < 4; ++x) {
#pragma unroll
        for (int y = 0; y < 4; ++y) sums[x][y] += h[x] * o[y];
      }
    }
  }
#pragma unroll
  for (int x = 0; x < 4; ++x) {
#pragma unroll
    for (int y = 0; y < 4; ++y) {
      const int h = held0 + held + x, o = other0 + other + y;
      const bool inside = h < nodes && o < nodes, one = h < globals || o < globals;
      tile[(held + x) * (kFloatStep + 1) + other + y] = inside ? (one ? 1.f : sums[x][y]) : 0.f;
    }
  }
}

/// For factors, `result` is [heads of the mask, n, rank], and a block adds up the slices that share a head.
template <bool kExact, FloatPass kPass>
__global__ void __launch_bounds__(kFloatThreads)
    float_rows_kernel(const __grid_constant__ FusedArgs<float> a, const __grid_constant__ FusedGradArgs<float> g,
                      const __grid_constant__ FusedRows<float> result) {
  constexpr bool kColumns = holds_columns(kPass), kGradients = wants_gradients(kPass), kFactors = is_of_factors(kPass);
  constexpr int kN = kFloatStep / 8, kTileStride = kFloatStep + 1;
  extern __shared__ __align__(1024) unsigned char shared[];
  const int nodes = (int)a.mask.nodes, globals = (int)a.mask.globals, lane = threadIdx.x % 32;
  const int warp_row = (int)threadIdx.x / 32 * 16, first = blockIdx.x * kFloatHeld, chunk = blockIdx.z * 64;
  const int features = a.q.width, value_dim = a.v.width;
  const int stride_a = FloatTile::stride_of(features), stride_b = FloatTile::stride_of(value_dim);
  const bool kernel = a.weighting == Weighting::kernel, additive = a.weighting == Weighting::additive;
  const bool scores = !(kPass == FloatPass::query && kernel);

  float* at = reinterpret_cast<float*>(shared);
  const auto take = [&](int rows, int stride) {
    const FloatTile tile{at, stride};
    at += rows * stride;
    return tile;
  };
  const FloatTile held_a = take(kFloatHeld, stride_a), held_b = kGradients ? take(kFloatHeld, stride_b) : held_a;
  const FloatTile other_a = take(kFloatStep, stride_a), other_b = take(kFloatStep, stride_b);
  const FloatTile factors = kFactors ? take(kFloatStep, FloatTile::stride_of(64)) : other_b;
  float *mask = take(kFloatHeld, kTileStride).data, *known = at;  // known: inverse, delta and largest of other rows

  float sums[8][4], total[2] = {}, largest[2] = {-INFINITY, -INFINITY};
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) sums[n][e] = 0;
  }

  const int own = slice_of_block(a);  // of factors a head of the mask
  const int sharing = !kFactors ? 1 : a.mask.heads == 1 ? a.batch * a.heads : a.batch;
  for (int shared_slice = 0; shared_slice < sharing; ++shared_slice) {
    int slice = own;  // of batch and head
    if constexpr (kFactors) slice = a.mask.heads == 1 ? shared_slice : shared_slice * a.heads + own;
    const int batch = slice / a.heads, head = slice % a.heads;
    const int64_t stats = (int64_t)slice * nodes;
    const float *q = a.q.data + slice_of(a.q, batch, head), *k = a.k.data + slice_of(a.k, batch, head),
                *v = a.v.data + slice_of(a.v, batch, head);
    const float* grad = kPass == FloatPass::forward ? nullptr : g.grad.data + slice_of(g.grad, batch, head);
    // Held and other sides: queries and gradients of the output are about rows, keys and values about columns.
    const auto load_a = [&](const FloatTile& tile, bool columns, int from, int count) {
      tile.load<kFloatThreads>(columns ? k : q, columns ? a.k.row : a.q.row, features, from, count, nodes);
    };
    const auto load_b = [&](const FloatTile& tile, bool columns, int from, int count) {
      tile.load<kFloatThreads>(columns ? v : grad, columns ? a.v.row : g.grad.row, value_dim, from, count, nodes);
    };
    load_a(held_a, kColumns, first, kFloatHeld);
    if constexpr (kGradients) load_b(held_b, kColumns, first, kFloatHeld);

    float held_inverse[2] = {}, held_delta[2] = {}, held_largest[2] = {};
    if constexpr (!kColumns && kPass != FloatPass::forward) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int i = min(first + warp_row + lane / 4 + 8 * half, nodes - 1);
        held_inverse[half] = g.inverse[stats + i];
        held_delta[half] = g.delta[stats + i];
        if (!kernel) held_largest[half] = a.largest[stats + i];
      }
    }

    const bool causal = a.mask.kind == TileKind::causal && !additive && globals == 0;
    const int begin = causal && kColumns ? first : 0,
              end = causal && !kColumns ? min(nodes, first + kFloatHeld) : nodes;
    for (int other = begin; other < end; other += kFloatStep) {
      load_a(other_a, !kColumns, other, kFloatStep);
      load_b(other_b, !kColumns, other, kFloatStep);
      if constexpr (kFactors) {  // rows of the other factor, 64 columns of them, of nodes after the global tokens
        const int rank = (int)a.mask.rank, mask_head = a.mask.heads == 1 ? 0 : head;
        const float* from = (kPass == FloatPass::left ? a.mask.right : a.mask.values) + mask_head * a.mask.length;
        for (int at = threadIdx.x; at < kFloatStep * 64; at += kFloatThreads) {
          const int o = other + at / 64 - globals, c = chunk + at % 64;
          const bool valid = o >= 0 && o < nodes - globals && c < rank;
          factors.data[at / 64 * factors.stride + at % 64] = valid ? __ldg(from + (int64_t)o * rank + c) : 0.f;
        }
      }
      if (kColumns && threadIdx.x < kFloatStep) {
        const int i = other + threadIdx.x;
        known[threadIdx.x] = i < nodes ? g.inverse[stats + i] : 0;
        known[kFloatStep + threadIdx.x] = i < nodes ? g.delta[stats + i] : 0;
        known[2 * kFloatStep + threadIdx.x] = i < nodes && !kernel ? a.largest[stats + i] : 0;
      }
      fill_mask<kColumns>(mask, a.mask, head, first, other);
      commit_copies();
      wait_for_copies<0>();
      __syncthreads();

      float s[kN][4] = {}, p[kN][4] = {};
      if (scores) float_scores<kExact>(s, held_a, warp_row, other_a, 0, features);
      if constexpr (kGradients) float_scores<kExact>(p, held_b, warp_row, other_b, 0, value_dim);

      const auto mask_at = [&](int n, int e) {
        return mask[(warp_row + lane / 4 + e / 2 * 8) * kTileStride + n * 8 + lane % 4 * 2 + e % 2];
      };
      if (!kernel) {  // exponents; columns past the last node get weight 0
        float most[2] = {largest[0], largest[1]};
#pragma unroll
        for (int n = 0; n < kN; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const float m = mask_at(n, e);
            s[n][e] = s[n][e] * a.scale + (additive ? m : 0.f);
            if (other + n * 8 + lane % 4 * 2 + e % 2 >= nodes) s[n][e] = -INFINITY;
            if (additive || m != 0) most[e / 2] = fmaxf(most[e / 2], s[n][e]);
          }
        }
        if constexpr (kPass == FloatPass::forward) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            most[half] = fmaxf(most[half], __shfl_xor_sync(~0u, most[half], 1));
            most[half] = fmaxf(most[half], __shfl_xor_sync(~0u, most[half], 2));
            const float keep = most[half] == largest[half] ? 1.f : expf(largest[half] - most[half]);
            largest[half] = most[half];
            total[half] *= keep;
#pragma unroll
            for (int n = 0; n < 8; ++n) sums[n][2 * half] *= keep, sums[n][2 * half + 1] *= keep;
            held_largest[half] = most[half] == -INFINITY ? 0.f : most[half];
          }
        }
      }
#pragma unroll
      for (int n = 0; n < kN; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int half = e / 2, o = n * 8 + lane % 4 * 2 + e % 2;
          const float m = mask_at(n, e);
          float base = s[n][e];  // W_ij without a factor M_ij
          if (!kernel) {
            const float x = base - (kColumns ? known[2 * kFloatStep + o] : held_largest[half]);
            base = expf(additive ? x : fminf(x, kLargestExponent<float>));
          }
          const float factor = additive ? 1.f : m;
          float& weight = s[n][e];
          if constexpr (kPass == FloatPass::forward) {
            weight = factor * base;
            total[half] += weight;
          } else {
            const float inverse = kColumns ? known[o] : held_inverse[half];
            const float delta = kColumns ? known[kFloatStep + o] : held_delta[half];
            const float moved = (p[n][e] - delta) * inverse;
            if constexpr (kPass == FloatPass::value) {
              weight = factor * base * inverse;
            } else if constexpr (kFactors) {
              weight = base * moved;
            } else {
              weight = kernel ? m * moved : factor * base * moved * a.scale;
            }
          }
        }
      }
      if constexpr (kFactors) {
        float_add<kExact>(sums, s, factors, 0);
      } else {
        float_add<kExact>(sums, s, kPass == FloatPass::forward || kPass == FloatPass::value ? other_b : other_a, chunk);
      }
      __syncthreads();
    }
  }

  const int slices = kFactors ? (int)a.mask.heads : a.heads;
  float* to = result.data + slice_of(result, own / slices, own % slices);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first + warp_row + lane / 4 + 8 * half;
    float factor = 1;
    if constexpr (kPass == FloatPass::forward) {
      float d = total[half];
      d += __shfl_xor_sync(~0u, d, 1);
      d += __shfl_xor_sync(~0u, d, 2);
      factor = 1.f / (additive ? d : clamped(d, a.eps));
      if (lane % 4 == 0 && row < nodes && blockIdx.z == 0) {
        a.denominator[(int64_t)own * nodes + row] = d;
        if (!kernel) a.largest[(int64_t)own * nodes + row] = largest[half] == -INFINITY ? 0 : largest[half];
      }
    }
    const int place = kFactors ? row - globals : row;
    if (row >= nodes || place < 0) continue;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const int column = chunk + n * 8 + lane % 4 * 2;
      if (column < result.width) to[place * result.row + column] = sums[n][2 * half] * factor;
      if (column + 1 < result.width) to[place * result.row + column + 1] = sums[n][2 * half + 1] * factor;
    }
  }
}

}  // namespace topomask::cuda

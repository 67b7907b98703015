#pragma once

#include "core/largest_exponent.h"
#include "ops/fused_attention/cuda_tile.cuh"

// Tiles of M on the GPU. A pass holds one side of a tile in registers (rows; or columns where kTransposed) and steps
// through the other. A kind of mask says how a value follows from both, and what of it is brought to shared memory for
// a step.

namespace topomask::cuda {

template <TileKind kKind, bool kTransposed>
struct TileValues {
  static constexpr bool kWindow = kKind == TileKind::offsets;

  __device__ __forceinline__ TileValues(const TileMask<float>& m, int head, int most)
      : mask(m),
        values(m.values + (m.heads == 1 ? 0 : head) * m.length),
        longest(most),
        inner((int)(m.nodes - m.globals)) {
    paired = kKind == TileKind::matrix && !kTransposed && (inner | (int)m.globals) % 2 == 0 &&
             reinterpret_cast<uintptr_t>(values) % 8 == 0;
  }

  /// The words of shared memory that a step takes, a multiple of 256 bytes.
  static __host__ __device__ constexpr int words(int window) {
    return kWindow ? kFusedColumns + (window + 63) / 64 * 64 : 0;
  }

  /// Rows (columns) `held` to held + count - 1 are held, and the first step will go to `other`.
  __device__ __forceinline__ void hold(int held, int count, int other) {
    if constexpr (kWindow) {
      const int nodes = (int)mask.nodes;
      held_low = mask.codes[min(held, nodes - 1)];
      held_high = mask.codes[min(held + count, nodes) - 1];
      look_ahead(other);
    }
  }

  /// Starts the copy of what the step to columns (rows) `other` to other + 63 needs; steps come in their order.
  template <int kThreadCount>
  __device__ __forceinline__ void stage(uint32_t room, int other) {
    if constexpr (kWindow) {
      const int nodes = (int)mask.nodes;
      next_start = (kTransposed ? low - held_high : held_low - high) + (int)mask.shift;
      const int length = held_high - held_low + high - low + 1;
      next_far = length > longest;
      static_assert(kThreadCount >= kFusedColumns);
      if (threadIdx.x < kFusedColumns) {
        copy_async_4(room + threadIdx.x * 4, mask.codes + min(other + (int)threadIdx.x, nodes - 1), true);
      }
#pragma unroll 1
      for (int at = threadIdx.x; at < length && !next_far; at += kThreadCount) {
        copy_async_4(room + (kFusedColumns + at) * 4, values + next_start + at, true);
      }
      next_base = kTransposed ? held_high - low : high - held_low;
      look_ahead(other + kFusedColumns);
    }
  }

  /// The step that was staged last but one begins, or the last: the copies are there.
  __device__ __forceinline__ void enter(const float* room, int held, int other) {
    if constexpr (kWindow) {
      codes = reinterpret_cast<const int*>(room);
      window = room + kFusedColumns + base;
      from_far = values + start + base;
    }
    first = other;
    bordered = mask.globals > 0 && (held < mask.globals || other < mask.globals);
    whole = paired && !bordered && other + kFusedColumns <= mask.nodes;
  }
  /// Called after stage() of the next step and before that step is entered.
  __device__ __forceinline__ void advance() {
    base = next_base, start = next_start, far = next_far;
  }

  /// What a node of the held side is known by.
  __device__ __forceinline__ int key(int node) const {
    if constexpr (kWindow) {
      const int code = mask.codes[min(node, (int)mask.nodes - 1)];
      return kTransposed ? -code : code;
    }
    return min(max(node - (int)mask.globals, 0), inner - 1);
  }

  /// Whether `count` held nodes from `node` on have codes that count up by one.
  __device__ __forceinline__ bool is_line(int node, int count) const {
    if constexpr (!kWindow) return false;
    return node + count <= mask.nodes && mask.codes[node + count - 1] - mask.codes[node] == count - 1;
  }
  /// Whether the nodes of the chunk at `at` do as well: then M depends on the difference of two nodes alone, and a lane
  /// meets each value several times.
  __device__ __forceinline__ bool is_line_with(bool held_line, int at) const {
    if constexpr (!kWindow) return false;
    return held_line && !bordered && !far && codes[at + kFusedChunk - 1] - codes[at] == kFusedChunk - 1;
  }
  /// The values of such a chunk that a lane meets: near_place says which is where. `key` is that of the first held
  /// node.
  template <int kCount>
  __device__ __forceinline__ void near(float (&result)[kCount][2], int key, int at) const {
    if constexpr (kWindow) {
      const int across = (int)threadIdx.x % 32 / 4 - (int)threadIdx.x % 4 * 2;
      const float* from =
          kTransposed ? window + (key + codes[at] - across - 8) : window + (key - codes[at] + across - 24);
#pragma unroll
      for (int x = 0; x < kCount; ++x) {
#pragma unroll
        for (int e = 0; e < 2; ++e) result[x][e] = from[8 * x + (kTransposed ? e : -e)];
      }
    }
  }
  /// The place in the result of near() for half `half` of the sixteen held rows f and the eight columns n.
  static __device__ __forceinline__ constexpr int near_place(int f, int half, int n) {
    return kTransposed ? n - half + 1 : 2 * f + half - n + 3;
  }

  /// M between a held node, known by its key, and the nodes first + at and first + at + 1.
  __device__ __forceinline__ float2 pair(int key, int node, int at) const {
    float2 result;
    if constexpr (kKind == TileKind::ones) {
      result = {1.f, 1.f};
    } else if constexpr (kWindow) {
      const int2 code = *reinterpret_cast<const int2*>(codes + at);
      const int x = kTransposed ? key + code.x : key - code.x, y = kTransposed ? key + code.y : key - code.y;
      if (far) {  // a tile across a border of long axes sees more than fits
        result = {__ldg(from_far + x), __ldg(from_far + y)};
      } else {
        result = {window[x], window[y]};
      }
    } else {
      const int other = first + at - (int)mask.globals;
      result = {one(key, min(max(other, 0), inner - 1)), one(key, min(max(other + 1, 0), inner - 1))};
    }
    if (bordered) {
      const int globals = (int)mask.globals;
      if (node < globals || first + at < globals) result.x = 1;
      if (node < globals || first + at + 1 < globals) result.y = 1;
    }
    return result;
  }

  /// M between any two nodes, from global memory.
  __device__ __forceinline__ float direct(int row, int column) const {
    const int nodes = (int)mask.nodes, globals = (int)mask.globals, i = min(row, nodes - 1), j = min(column, nodes - 1);
    if (kKind == TileKind::ones || i < globals || j < globals) return 1.f;
    if constexpr (kWindow) return values[mask.codes[i] - mask.codes[j] + mask.shift];
    return kTransposed ? one(j - globals, i - globals) : one(i - globals, j - globals);
  }

  /// Whether every pair of this step is a matrix's, inside and at a multiple of 8 bytes.
  __device__ __forceinline__ bool is_whole() const {
    return kKind == TileKind::matrix && whole;
  }
  /// pair() of a matrix in a step that is_whole(): both values by one load.
  __device__ __forceinline__ float2 matrix_pair(int key, int at) const {
    return __ldg(reinterpret_cast<const float2*>(values + (int64_t)key * inner + first + at - mask.globals));
  }

  /// Which value of a table is M between nodes after the global tokens.
  __device__ __forceinline__ int place(int i, int j) const {
    if constexpr (kKind == TileKind::hamming) return __popc(i ^ j);
    const int place = __ldg(mask.places + (int64_t)i * inner + j), length = (int)mask.length;
    return place < 0 || place >= length ? length - 1 : place;
  }

 private:
  __device__ __forceinline__ void look_ahead(int other) {
    const int nodes = (int)mask.nodes;
    low = mask.codes[min(other, nodes - 1)];
    high = mask.codes[min(other + kFusedColumns, nodes) - 1];
  }

  /// M between nodes after the global tokens.
  __device__ __forceinline__ float one(int held, int other) const {
    const int i = kTransposed ? other : held, j = kTransposed ? held : other;
    if constexpr (kKind == TileKind::causal) return j <= i ? 1.f : 0.f;
    if constexpr (kKind == TileKind::matrix) return __ldg(values + (int64_t)i * inner + j);
    if constexpr (kKind == TileKind::places || kKind == TileKind::hamming) return __ldg(values + place(i, j));
    return 0;
  }

  const TileMask<float>& mask;
  const float* values;
  const float *window, *from_far;
  const int* codes;
  int longest, inner, first, start = 0, next_start = 0, base = 0, next_base = 0, held_low = 0, held_high = 0, low = 0,
                             high = 0;
  bool bordered, paired, whole, far = false, next_far = false;
};

inline constexpr float kFusedLog2e = 1.4426950408889634f;

/// exp(x - max) for x and max times log2(e); kept finite where M_ij = 0 let x stay out of the maximum.
template <Weighting kWeighting>
__device__ __forceinline__ float fused_exponential(float x, float max) {
  constexpr float kMost = kLargestExponent<float> * kFusedLog2e;
  return fused_power(kWeighting == Weighting::multiplicative ? fminf(x - max, kMost) : x - max);
}

}  // namespace topomask::cuda

#pragma once

#include "ops/fused_attention/cuda_kernel.h"
#include "ops/fused_attention/cuda_tf32.cuh"
#include "ops/fused_attention/cuda_tile.cuh"

// Tiles of float32 in shared memory, and products of them: exact to float32, or with operands rounded to TF32.

namespace topomask::cuda {

/// kCount words of an operand. Exact: upper parts, and what is left of the values.
template <bool kExact, int kCount>
struct FloatOperand {
  uint32_t high[kCount], low[kExact ? kCount : 1];

  __device__ __forceinline__ void set(int at, float x) {
    if constexpr (kExact) {
      high[at] = __float_as_uint(x) & 0xffffe000u;
      low[at] = __float_as_uint(x - __uint_as_float(high[at]));
    } else {
      high[at] = rounded_tf32(x);
    }
  }
};

template <bool kExact>
__device__ __forceinline__ void float_multiply_add(float (&result)[4], const FloatOperand<kExact, 4>& left,
                                                   const FloatOperand<kExact, 2>& right) {
  if constexpr (kExact) {
    multiply_add_tf32(result, left.low, right.high);
    multiply_add_tf32(result, left.high, right.low);
  }
  multiply_add_tf32(result, left.high, right.high);
}

/// Rows of `stride` values: the width, a multiple of 8, and four more where it is one of 32, so that eight rows of four
/// values, and four pairs of rows of eight, lie in different banks.
struct FloatTile {
  float* data;
  int stride;

  static __host__ __device__ constexpr int stride_of(int width) { return (width + 31) / 32 * 32 + 4; }

  /// Brings `rows` rows from `first` on; those beyond the last node are zero.
  template <int kThreadCount>
  __device__ __forceinline__ void load(const float* slice, int64_t row_stride, int width, int first, int rows,
                                       int nodes) const {
    const int packets = width / 4;
    for (int at = threadIdx.x; at < rows * packets; at += kThreadCount) {
      const int row = at / packets, packet = at % packets;
      const bool valid = first + row < nodes;
      copy_async_16(shared_address(data + row * stride + packet * 4),
                    slice + (valid ? (int64_t)(first + row) * row_stride + packet * 4 : 0), valid);
    }
  }

  /// Rows row + g and row + g + 8, columns column + t and column + t + 4.
  template <bool kExact>
  __device__ __forceinline__ void left(FloatOperand<kExact, 4>& words, int row, int column) const {
    const int lane = threadIdx.x % 32;
    const float* from = data + (row + lane / 4) * stride + column + lane % 4;
    words.set(0, from[0]);
    words.set(1, from[8 * stride]);
    words.set(2, from[4]);
    words.set(3, from[8 * stride + 4]);
  }
};

/// result[n] += rows `row` to row + 15 of left · rows 8 n to 8 n + 7 from `other` on of right, transposed.
template <bool kExact, int kCount>
__device__ __forceinline__ void float_scores(float (&result)[kCount][4], const FloatTile& left, int row,
                                             const FloatTile& right, int other, int width) {
  const int lane = threadIdx.x % 32;
  const float* from = right.data + (other + lane / 4) * right.stride + lane % 4;
#pragma unroll 2
  for (int column = 0; column < width; column += 8) {
    FloatOperand<kExact, 4> a;
    left.left<kExact>(a, row, column);
#pragma unroll
    for (int n = 0; n < kCount; ++n) {
      FloatOperand<kExact, 2> b;
      b.set(0, from[n * 8 * right.stride + column]);
      b.set(1, from[n * 8 * right.stride + column + 4]);
      float_multiply_add<kExact>(result[n], a, b);
    }
  }
}

/// sums += weights · rows 0 to 8 kCount - 1 of right, columns `column` to column + 63. The columns of the weights come
/// in another order, which the rows of right follow: no lane wants what another has. Each call's sum is made by itself:
/// the tensor cores do not round as they add, and small parts would be lost from large sums.
template <bool kExact, int kCount>
__device__ __forceinline__ void float_add(float (&sums)[8][4], const float (&weights)[kCount][4],
                                          const FloatTile& right, int column) {
  const int lane = threadIdx.x % 32;
  FloatOperand<kExact, 4> a[kCount];
#pragma unroll
  for (int n = 0; n < kCount; ++n) {
    a[n].set(0, weights[n][0]);
    a[n].set(1, weights[n][2]);
    a[n].set(2, weights[n][1]);
    a[n].set(3, weights[n][3]);
  }
  const float* from = right.data + lane % 4 * 2 * right.stride + column + lane / 4;
#pragma unroll
  for (int c = 0; c < 8; ++c) {
    float part[4] = {};
#pragma unroll
    for (int n = 0; n < kCount; ++n) {
      FloatOperand<kExact, 2> b;
      b.set(0, from[n * 8 * right.stride + c * 8]);
      b.set(1, from[(n * 8 + 1) * right.stride + c * 8]);
      float_multiply_add<kExact>(part, a[n], b);
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) sums[c][e] += part[e];
  }
}

/// M_ij of a mask of any kind but factors, from global memory; i and j below the number of nodes.
__device__ __forceinline__ float float_mask_value(const TileMask<float>& mask, const float* values, int i, int j) {
  const int globals = (int)mask.globals, inner = (int)mask.nodes - globals;
  if (i < globals || j < globals) return 1.f;
  if (mask.kind == TileKind::offsets) return __ldg(values + mask.codes[i] - mask.codes[j] + mask.shift);
  i -= globals, j -= globals;
  switch (mask.kind) {
    case TileKind::causal:
      return j <= i ? 1.f : 0.f;
    case TileKind::matrix:
      return __ldg(values + (int64_t)i * inner + j);
    case TileKind::hamming:
      return __ldg(values + __popc(i ^ j));
    case TileKind::places: {
      const int place = __ldg(mask.places + (int64_t)i * inner + j), length = (int)mask.length;
      return __ldg(values + (place < 0 || place >= length ? length - 1 : place));
    }
    default:
      return 1.f;
  }
}

}  // namespace topomask::cuda

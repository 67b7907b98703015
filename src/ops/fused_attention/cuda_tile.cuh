#pragma once

#include <cstdint>

#include "core/cuda/tensor_core.cuh"
#include "ops/fused_attention/cuda_copies.cuh"
#include "ops/fused_attention/cuda_kernel.h"

// Tiles of rows in shared memory, and products of them on the tensor cores.

namespace topomask::cuda {

inline constexpr int kFusedColumns = 64;  ///< rows of the other side that a step takes
inline constexpr int kFusedChunk = 32;    ///< that are in registers at once
inline constexpr int kFusedBlocks = 2;    ///< that share a multiprocessor: more leave too few registers

/// Rows of kWidth values of 16 bits in packets of 16 bytes that are permuted (swizzled), so that the same packet of
/// eight rows lies in different banks. `base` is a multiple of the bytes of eight rows.
template <int kWidth>
struct FusedTile {
  static constexpr int kPackets = kWidth / 8, kRowBytes = kWidth * 2;
  static_assert(kPackets >= 8);

  uint32_t base;

  /// Starts the copy of `rows` rows from `first` on; rows and columns beyond the ends are zero.
  template <int kThreadCount, class T>
  __device__ __forceinline__ void load(const T* slice, int64_t stride, int width, int first, int rows,
                                       int nodes) const {
    static_assert(kThreadCount % (8 * kPackets) == 0);
    const int packet = threadIdx.x % kPackets, mine = threadIdx.x / kPackets;
    const bool inside = packet * 8 < width;
    const char* from = reinterpret_cast<const char*>(slice + (inside ? packet * 8 : 0));
    const uint32_t to = base + mine * kRowBytes + (packet ^ (mine & 7)) * 16;
    const int bytes = (int)(stride * (int64_t)sizeof(T));
#pragma unroll
    for (int at = 0; at < rows; at += kThreadCount / kPackets) {
      const int node = first + mine + at;
      copy_async_16(to + at * kRowBytes, from + (int64_t)min(node, nodes - 1) * bytes, inside && node < nodes);
    }
  }

  /// Sixteen rows from `row` on, columns 16 step to 16 step + 15, as a left operand.
  __device__ __forceinline__ void left(uint32_t (&words)[4], int row, int step) const {
    const int lane = threadIdx.x % 32;
    const uint32_t at = (base + lane % 16 * kRowBytes + ((lane / 16) ^ (lane & 7)) * 16) ^ (step * 32);
    load_matrices<false>(words, at + row * kRowBytes);
  }
  /// The same rows as sixteen columns of right operands: words 0, 1 the first eight, words 2, 3 the others.
  __device__ __forceinline__ void columns(uint32_t (&words)[4], int row, int step) const {
    const int lane = threadIdx.x % 32;
    const uint32_t at =
        (base + (lane % 8 + lane / 16 * 8) * kRowBytes + ((lane / 8 % 2) ^ (lane & 7)) * 16) ^ (step * 32);
    load_matrices<false>(words, at + row * kRowBytes);
  }
  /// The same rows as rows of two right operands: columns 16 step to 16 step + 7 (words 0, 1), and the next eight.
  __device__ __forceinline__ void rows(uint32_t (&words)[4], int row, int step) const {
    const int lane = threadIdx.x % 32;
    const uint32_t at = (base + lane % 16 * kRowBytes + ((lane / 16) ^ (lane & 7)) * 16) ^ (step * 32);
    load_matrices<true>(words, at + row * kRowBytes);
  }
};

/// result = left · rows `first` to `first` + 31 of `right`, transposed.
template <class T, int kWidth, int kFrags>
__device__ __forceinline__ void fused_scores(float (&result)[kFrags][4][4],
                                             const uint32_t (&left)[kFrags][kWidth / 16][4],
                                             const FusedTile<kWidth>& right, int first) {
#pragma unroll
  for (int f = 0; f < kFrags; ++f) {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) result[f][n][e] = 0;
    }
  }
#pragma unroll
  for (int step = 0; step < kWidth / 16; ++step) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint32_t words[4];
      right.columns(words, first + half * 16, step);
#pragma unroll
      for (int f = 0; f < kFrags; ++f) {
        multiply_add<T>(result[f][2 * half], left[f][step], words[0], words[1]);
        multiply_add<T>(result[f][2 * half + 1], left[f][step], words[2], words[3]);
      }
    }
  }
}

/// sums += weights · rows `first` to `first` + 31 of `right`, the weights rounded to T.
template <class T, int kWidth, int kFrags>
__device__ __forceinline__ void fused_add(float (&sums)[kFrags][kWidth / 8][4], const float (&weights)[kFrags][4][4],
                                          const FusedTile<kWidth>& right, int first) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    uint32_t left[kFrags][4];
#pragma unroll
    for (int f = 0; f < kFrags; ++f) {
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const float* two = &weights[f][2 * half + w / 2][w % 2 * 2];
        left[f][w] = two_of<T>(two[0], two[1]);
      }
    }
#pragma unroll
    for (int step = 0; step < kWidth / 16; ++step) {
      uint32_t words[4];
      right.rows(words, first + half * 16, step);
#pragma unroll
      for (int f = 0; f < kFrags; ++f) {
        multiply_add<T>(sums[f][2 * step], left[f], words[0], words[1]);
        multiply_add<T>(sums[f][2 * step + 1], left[f], words[2], words[3]);
      }
    }
  }
}

/// Sixteen rows of a matrix of sums, rounded to T, to rows first + g and first + g + 8.
template <class T, int kWidth>
__device__ __forceinline__ void fused_store(const FusedRows<T>& rows, int64_t slice, int first, int nodes,
                                            const float (&sums)[kWidth / 8][4], const float (&factor)[2]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first + lane / 4 + 8 * half;
    if (row >= nodes) continue;
    T* to = rows.data + slice + row * rows.row + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n) {
      if (n * 8 >= rows.width) break;
      *reinterpret_cast<uint32_t*>(to + n * 8) =
          two_of<T>(sums[n][2 * half] * factor[half], sums[n][2 * half + 1] * factor[half]);
    }
  }
}

/// The slice (batch, head) that a block takes; in the gradients of a mask, the head of the mask.
template <class T>
__device__ __forceinline__ int slice_of_block(const FusedArgs<T>& a) {
  return a.first_slice + (int)blockIdx.y;
}

template <class T>
__device__ __forceinline__ int64_t slice_of(const FusedRows<T>& rows, int batch, int head) {
  return batch * rows.batch + head * rows.head;
}

}  // namespace topomask::cuda

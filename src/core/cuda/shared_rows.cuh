#pragma once

#include <cstdint>

#include "core/cuda/tensor_core.cuh"

// Sixteen rows of nodes in shared memory, and their products on the tensor cores.

namespace topomask::cuda {

inline constexpr int kTileRows = 16;

/// Sixteen rows of kWidth values of 16 bits in shared memory, in packets of eight that are permuted (swizzled), so that
/// neither eight packets of a row nor the same one of eight rows share banks. `base` is a multiple of the bytes of a
/// row: what differs between the steps of a loop is then added, or flips bits, and is known to the compiler.
template <int kWidth>
struct SharedRows {
  static constexpr int kPackets = kWidth / 8, kRowBytes = kWidth * 2, kBytes = kTileRows * kRowBytes;
  static constexpr int kRowsAtOnce = 32 / kPackets;  ///< that a warp asks for, a packet a lane
  static_assert(kPackets == 4 || kPackets == 8 || kPackets == 16);

  uint32_t base;

  static __device__ __forceinline__ uint32_t at(int row, int packet) {
    const int moved = kPackets == 4 ? packet ^ (row / 2 % 4) : packet ^ (row % 8);
    return static_cast<uint32_t>((row * kPackets + moved) * 16);
  }
  /// Where lane l has packet l mod kPackets of row kRowsAtOnce step + l / kPackets.
  __device__ __forceinline__ uint32_t packet_at(int step) const {
    const int lane = threadIdx.x, flipped = kPackets == 4 ? 0 : step * kRowsAtOnce % 8 * 16;
    return ((base + at(lane / kPackets, lane % kPackets)) ^ flipped) + step * kRowsAtOnce * kRowBytes;
  }
  /// Eight of the rows, from 8 block on, as the columns of two right operands: steps `step` (even) and `step` + 1.
  __device__ __forceinline__ void columns(uint32_t (&words)[4], int block, int step) const {
    const int lane = threadIdx.x;
    load_matrices<false>(words, ((base + at(lane % 8, lane / 8)) ^ (step * 32)) + block * 8 * kRowBytes);
  }
  /// Sixteen rows as the rows of two right operands: columns 8 block to 8 block + 7 (block even), and the next eight.
  __device__ __forceinline__ void rows(uint32_t (&words)[4], int block) const {
    const int lane = threadIdx.x;
    load_matrices<true>(words, (base + at(lane % 16, lane / 16)) ^ (block * 16));
  }
};

/// result[., .] += rows of `left` · rows of `right`: sixteen by sixteen, as two operands of eight columns.
template <class T, int kWidth>
__device__ __forceinline__ void multiply_rows(float (&result)[2][4], const uint32_t (&left)[kWidth / 16][4],
                                              const SharedRows<kWidth>& right) {
#pragma unroll
  for (int block = 0; block < 2; ++block) {
#pragma unroll
    for (int step = 0; step < kWidth / 16; step += 2) {
      uint32_t words[4];
      right.columns(words, block, step);
      multiply_add<T>(result[block], left[step], words[0], words[1]);
      multiply_add<T>(result[block], left[step + 1], words[2], words[3]);
    }
  }
}

/// A result of multiply_rows as the left operand of the next product.
struct LeftOperand {
  uint32_t words[4];
};
template <class T>
__device__ __forceinline__ LeftOperand rounded(const float (&result)[2][4]) {
  return {two_of<T>(result[0][0], result[0][1]), two_of<T>(result[0][2], result[0][3]),
          two_of<T>(result[1][0], result[1][1]), two_of<T>(result[1][2], result[1][3])};
}

/// sums += weights · rows: sixteen by sixteen times sixteen by kWidth.
template <class T, int kWidth>
__device__ __forceinline__ void add_weighted(float (&sums)[kWidth / 8][4], const LeftOperand& weights,
                                             const SharedRows<kWidth>& rows) {
#pragma unroll
  for (int block = 0; block < kWidth / 8; block += 2) {
    uint32_t words[4];
    rows.rows(words, block);
    multiply_add<T>(sums[block], weights.words, words[0], words[1]);
    multiply_add<T>(sums[block + 1], weights.words, words[2], words[3]);
  }
}

}  // namespace topomask::cuda

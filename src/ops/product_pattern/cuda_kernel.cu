#include "ops/product_pattern/cuda_kernel.h"

namespace topomask::cuda {

namespace {

constexpr int kWarp = 32, kThreads = 256, kWarps = kThreads / kWarp;
constexpr int kWords = 1024;  // of a row in shared memory: columns at most 32 768 apart

struct Range {
  int32_t low, high;  ///< columns; low > high where there are none
  __device__ __forceinline__ int64_t first_word() const { return low / 32; }
  __device__ __forceinline__ int64_t words() const { return low > high ? 0 : high / 32 - low / 32 + 1; }
};

/// What a row of the product spans: lists of Bᵀ ascend, so their ends tell.
__device__ __forceinline__ Range range_of(const PatternArgs& a, int64_t row, int lane) {
  Range range{INT32_MAX, -1};
  for (int64_t e = a.a_offsets[row] + lane; e < a.a_offsets[row + 1]; e += kWarp) {
    const int64_t first = a.bt_offsets[a.a_columns[e]], last = a.bt_offsets[a.a_columns[e] + 1];
    if (first == last) continue;
    range.low = min(range.low, a.bt_columns[first]);
    range.high = max(range.high, a.bt_columns[last - 1]);
  }
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    range.low = min(range.low, __shfl_xor_sync(0xFFFFFFFFu, range.low, step));
    range.high = max(range.high, __shfl_xor_sync(0xFFFFFFFFu, range.high, step));
  }
  return range;
}

/// A bit for each column of the row, from `words` on for the first word of its range.
__device__ __forceinline__ void set_bits(const PatternArgs& a, int64_t row, int64_t first_word, uint32_t* words,
                                         int lane) {
  for (int64_t e = a.a_offsets[row]; e < a.a_offsets[row + 1]; ++e) {
    const int32_t c = a.a_columns[e];
    for (int64_t k = a.bt_offsets[c] + lane; k < a.bt_offsets[c + 1]; k += kWarp) {
      const int32_t column = a.bt_columns[k];
      atomicOr(words + (column / 32 - first_word), 1u << (column % 32));
    }
  }
}

/// Reads the bits in order and clears them: how many, and with `columns` which.
__device__ __forceinline__ int64_t take_bits(const Range& range, uint32_t* words, int32_t* columns, int lane) {
  int64_t taken = 0;
  for (int64_t begin = 0; begin < range.words(); begin += kWarp) {
    const int64_t w = begin + lane;
    uint32_t bits = 0;
    if (w < range.words()) {
      bits = words[w];
      words[w] = 0;
    }
    const int own = __popc(bits);
    int before = own;
#pragma unroll
    for (int step = 1; step < kWarp; step *= 2) {
      const int below = __shfl_up_sync(0xFFFFFFFFu, before, step);
      if (lane >= step) before += below;
    }
    const int total = __shfl_sync(0xFFFFFFFFu, before, kWarp - 1);
    if (columns) {
      int64_t place = taken + before - own;
      for (; bits != 0; bits &= bits - 1) {
        columns[place++] = static_cast<int32_t>((range.first_word() + w) * 32 + __ffs(static_cast<int>(bits)) - 1);
      }
    }
    taken += total;
  }
  return taken;
}

/// A warp takes a row: those that span few columns with their bits in shared memory, the others, with kWide, in words
/// of its own in global memory.
template <bool kWide>
__global__ void __launch_bounds__(kThreads)
    pattern_kernel(const PatternArgs a, int64_t* lengths, const int64_t* offsets, int32_t* columns) {
  __shared__ uint32_t shared[kWide ? 1 : kWarps * kWords];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kWarps + warp;
  const int64_t step = kWide ? a.wide_rows : a.rows;
  if (kWide && first >= a.wide_rows) return;
  uint32_t* words = kWide ? a.words + first * ((a.cols + 31) / 32) : shared + warp * kWords;
  if constexpr (!kWide) {
    for (int w = lane; w < kWords; w += kWarp) words[w] = 0;
    __syncwarp();
  }
  for (int64_t row = first; row < a.rows; row += step) {
    const Range range = range_of(a, row, lane);
    if ((range.words() > kWords) != kWide) continue;
    set_bits(a, row, range.first_word(), words, lane);
    if constexpr (kWide) __threadfence_block();
    __syncwarp();
    const int64_t taken = take_bits(range, words, columns ? columns + offsets[row] : nullptr, lane);
    if (lengths && lane == 0) lengths[row] = taken;
    __syncwarp();
  }
}

void run(const PatternArgs& args, int64_t* lengths, const int64_t* offsets, int32_t* columns, cudaStream_t stream) {
  const auto blocks = [](int64_t warps) { return static_cast<unsigned>((warps + kWarps - 1) / kWarps); };
  if (args.rows == 0) return;
  pattern_kernel<false><<<blocks(args.rows), kThreads, 0, stream>>>(args, lengths, offsets, columns);
  if (args.wide_rows > 0) {
    pattern_kernel<true><<<blocks(args.wide_rows), kThreads, 0, stream>>>(args, lengths, offsets, columns);
  }
}

}  // namespace

void pattern_lengths(const PatternArgs& args, int64_t* lengths, cudaStream_t stream) {
  run(args, lengths, nullptr, nullptr, stream);
}

void pattern_columns(const PatternArgs& args, const int64_t* offsets, int32_t* columns, cudaStream_t stream) {
  run(args, nullptr, offsets, columns, stream);
}

}  // namespace topomask::cuda

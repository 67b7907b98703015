#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

// The instructions around the tensor cores, on values of 16 bits: the products are exact and the sums are float32, as
// they would be without them.

namespace topomask::cuda {

/// result += left · right, 16 × 16 by 16 × 8; compute capability 8.0. Lane 4g + t has
/// - of left, rows g (words 0, 2) and g + 8 (words 1, 3), columns 2t and 2t + 1 (words 0, 1), 2t + 8 and 2t + 9 (2, 3);
/// - of right, column g, its rows numbered as the columns of left;
/// - of the result, rows g (0, 1) and g + 8 (2, 3), columns 2t and 2t + 1.
template <class T>
__device__ __forceinline__ void multiply_add(float (&result)[4], const uint32_t (&left)[4], uint32_t right_0,
                                             uint32_t right_1) {
  if constexpr (std::is_same_v<T, __half>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(result[0]), "+f"(result[1]), "+f"(result[2]), "+f"(result[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right_0), "r"(right_1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(result[0]), "+f"(result[1]), "+f"(result[2]), "+f"(result[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right_0), "r"(right_1));
  }
}

/// Two values of T in a word, the first in its lower half.
template <class T>
__device__ __forceinline__ uint32_t two_of(float first, float second) {
  uint32_t word;
  if constexpr (std::is_same_v<T, __half>) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  }
  return word;
}

/// The dot product of two words that two_of made.
template <class T>
__device__ __forceinline__ float dot_of_two(uint32_t a, uint32_t b) {
  using Two = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;
  const Two x = reinterpret_cast<const Two&>(a), y = reinterpret_cast<const Two&>(b);
  return static_cast<float>(x.x) * static_cast<float>(y.x) + static_cast<float>(x.y) * static_cast<float>(y.y);
}

/// The address is kept in a register. It would be recomputed at every use, and the number of the block is slow to read.
__device__ __forceinline__ uint32_t shared_address(const void* p) {
  auto address = static_cast<uint32_t>(__cvta_generic_to_shared(p));
  asm("" : "+r"(address));
  return address;
}

__device__ __forceinline__ void store_shared(uint32_t address, uint32_t word) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(word) : "memory");
}
/// Without a branch, which would cost more than the store.
__device__ __forceinline__ void store_shared_if(bool wanted, uint32_t address, uint32_t word) {
  asm volatile(
      "{\n"
      "  .reg .pred wanted;\n"
      "  setp.ne.u32 wanted, %0, 0;\n"
      "  @wanted st.shared.u32 [%1], %2;\n"
      "}" ::"r"(static_cast<uint32_t>(wanted)),
      "r"(address), "r"(word)
      : "memory");
}
__device__ __forceinline__ uint32_t load_shared_word(uint32_t address) {
  uint32_t word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
  return word;
}
__device__ __forceinline__ uint4 load_shared(uint32_t address) {
  uint4 words;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "r"(address)
               : "memory");
  return words;
}

/// Four matrices of 8 × 8 values of 16 bits from shared memory, whose rows lanes 8m to 8m + 7 name: lane 4g + t gets of
/// each row g, columns 2t and 2t + 1; or of each transpose.
template <bool kTransposed>
__device__ __forceinline__ void load_matrices(uint32_t (&words)[4], uint32_t row) {
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(row)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(row)
                 : "memory");
  }
}

/// Dot products of rows of 64 values, where each quarter of a warp holds one row, a packet of eight values a lane. The
/// four rows are the left operand: row g mod 4 twice, its first half as row g, its second half as row g + 8.
template <class T>
class TensorCoreRows {
 public:
  /// `packet` is this lane's of the row that its quarter of the warp has.
  __device__ __forceinline__ explicit TensorCoreRows(const uint4& packet) {
    const int lane = threadIdx.x % 32, first = lane / 4 % 4 * 8 + lane % 4;
    const uint32_t words[4] = {packet.x, packet.y, packet.z, packet.w};
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      left_[w / 2][w % 2 * 2] = __shfl_sync(kWarp, words[w], first);
      left_[w / 2][w % 2 * 2 + 1] = __shfl_sync(kWarp, words[w], first + 4);
    }
    source_ = lane / 8 * 5;
  }

  /// The row of this quarter of the warp times the one that `packet` is of, in each of its lanes. As it is stored, that
  /// packet is of columns 2r and 2r + 1 of the right operand, the halves of the row that quarter r has. In the product,
  /// lane 5r has both halves times themselves.
  __device__ __forceinline__ float dot(const uint4& packet) const {
    float product[4] = {};
    multiply_add<T>(product, left_[0], packet.x, packet.y);
    multiply_add<T>(product, left_[1], packet.z, packet.w);
    return __shfl_sync(kWarp, product[0] + product[3], source_);
  }

 private:
  static constexpr unsigned kWarp = 0xffffffffu;
  uint32_t left_[2][4];
  int source_;
};

}  // namespace topomask::cuda

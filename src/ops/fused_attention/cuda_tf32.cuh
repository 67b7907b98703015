#pragma once

#include <cstdint>

// Products of float32 on the tensor cores, which take the upper 19 bits of a value (TF32): by themselves, or exact to
// float32 by three products of upper and lower parts.

namespace topomask::cuda {

/// result += left · right, 16 × 8 by 8 × 8. Lane 4g + t has of left rows g (0, 2) and g + 8 (1, 3), columns t (0, 1)
/// and t + 4 (2, 3); of right column g, rows t and t + 4; of the result rows g (0, 1) and g + 8 (2, 3), columns 2t, 2t
/// + 1.
__device__ __forceinline__ void multiply_add_tf32(float (&result)[4], const uint32_t (&left)[4],
                                                  const uint32_t (&right)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(result[0]), "+f"(result[1]), "+f"(result[2]), "+f"(result[3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
}

/// To the nearest value of TF32.
__device__ __forceinline__ uint32_t rounded_tf32(float x) {
  uint32_t word;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(x));
  return word;
}

}  // namespace topomask::cuda

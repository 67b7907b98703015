#pragma once

#include "ops/fused_attention/cuda_tile.cuh"

// Products of tiles of 64 rows of 64 values by a warpgroup, four warps of which each has sixteen rows of the result: on
// Hopper by its own instructions, which run asynchronously until they are waited for; elsewhere by those that every
// tensor core has. A thread's part of a result [8][4] is that of multiply_add, eight columns after eight.

namespace topomask::cuda {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
inline constexpr bool kWarpgroups = true;
#else
inline constexpr bool kWarpgroups = false;
#endif

/// The same for all threads of a block, which the compiler sees: descriptors are made of it without vector
/// instructions.
__device__ __forceinline__ uint32_t uniform_shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

/// What ordinary stores and copies wrote to shared memory becomes visible to the tensor cores; a barrier follows.
__device__ __forceinline__ void publish_to_tensor_cores() {
  if constexpr (kWarpgroups) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
/// Before products that read or add to registers which other instructions wrote.
__device__ __forceinline__ void begin_products() {
  if constexpr (kWarpgroups) asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void commit_products() {
  if constexpr (kWarpgroups) asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until all but the last kPending groups of products are complete.
template <int kPending>
__device__ __forceinline__ void wait_for_products() {
  if constexpr (kWarpgroups) asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
/// Called after a wait: the compiler must not use these sums before it.
__device__ __forceinline__ void hold_back(float (&sums)[8][4]) {
  if constexpr (kWarpgroups) {
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) asm volatile("" : "+f"(sums[n][e])::"memory");
    }
  }
}

/// The address of a tile in the form that the tensor cores take: rows of 128 bytes, packets swizzled over eight rows.
__device__ __forceinline__ uint64_t descriptor_of(uint32_t address) {
  return (uint64_t)1 << 62 | (uint64_t)(1024 / 16) << 32 | (uint64_t)1 << 16 | (address & 0x3ffff) >> 4;
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define TOPOMASK_32                          \
  "%0, %1, %2, %3, %4, %5, %6, %7, "         \
  "%8, %9, %10, %11, %12, %13, %14, %15, "   \
  "%16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31"
#define TOPOMASK_SUMS(mode)                                                                                    \
  mode(d[0][0]), mode(d[0][1]), mode(d[0][2]), mode(d[0][3]), mode(d[1][0]), mode(d[1][1]), mode(d[1][2]),     \
      mode(d[1][3]), mode(d[2][0]), mode(d[2][1]), mode(d[2][2]), mode(d[2][3]), mode(d[3][0]), mode(d[3][1]), \
      mode(d[3][2]), mode(d[3][3]), mode(d[4][0]), mode(d[4][1]), mode(d[4][2]), mode(d[4][3]), mode(d[5][0]), \
      mode(d[5][1]), mode(d[5][2]), mode(d[5][3]), mode(d[6][0]), mode(d[6][1]), mode(d[6][2]), mode(d[6][3]), \
      mode(d[7][0]), mode(d[7][1]), mode(d[7][2]), mode(d[7][3])
#define TOPOMASK_PRODUCT(types, operands, predicate, mode, ...)                                                        \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " predicate ", 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32." types \
               " {" TOPOMASK_32 "}, " operands ";\n}"                                                                  \
               : TOPOMASK_SUMS(mode)                                                                                   \
               : __VA_ARGS__)
// The sums are read where they are kept.
#define TOPOMASK_PRODUCTS(types, operands, predicate, ...)           \
  if constexpr (kKeep) {                                             \
    TOPOMASK_PRODUCT(types, operands, predicate, "+f", __VA_ARGS__); \
  } else {                                                           \
    TOPOMASK_PRODUCT(types, operands, predicate, "=f", __VA_ARGS__); \
  }
#define TOPOMASK_PRODUCTS_OF(operands, predicate, ...)               \
  if constexpr (std::is_same_v<T, __half>) {                         \
    TOPOMASK_PRODUCTS("f16.f16", operands, predicate, __VA_ARGS__)   \
  } else {                                                           \
    TOPOMASK_PRODUCTS("bf16.bf16", operands, predicate, __VA_ARGS__) \
  }
/// d = (kKeep ? d : 0) + a · b over 16 values; kRows: b has rows of these values, else columns.
template <class T, bool kKeep, bool kRows>
__device__ __forceinline__ void warpgroup_step(float (&d)[8][4], const uint32_t (&a)[4], uint64_t b) {
  TOPOMASK_PRODUCTS_OF("{%32, %33, %34, %35}, %36, p, 1, 1, %38", "%37", "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),
                       "l"(b), "n"(kKeep ? 1 : 0), "n"(kRows ? 1 : 0))
}
template <class T, bool kKeep>
__device__ __forceinline__ void warpgroup_step(float (&d)[8][4], uint64_t a, uint64_t b) {
  TOPOMASK_PRODUCTS_OF("%32, %33, p, 1, 1, 0, 0", "%34", "l"(a), "l"(b), "n"(kKeep ? 1 : 0))
}
#undef TOPOMASK_PRODUCTS_OF
#undef TOPOMASK_PRODUCTS
#undef TOPOMASK_PRODUCT
#undef TOPOMASK_32
#undef TOPOMASK_SUMS
#endif

/// Starts result = left · rightᵀ.
template <class T>
__device__ __forceinline__ void start_scores(float (&result)[8][4], const uint32_t (&left)[4][4],
                                             const FusedTile<64>& right) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    const uint64_t b = descriptor_of(right.base + step * 32);
    if (step == 0) {
      warpgroup_step<T, false, false>(result, left[step], b);
    } else {
      warpgroup_step<T, true, false>(result, left[step], b);
    }
  }
#else
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) result[n][e] = 0;
  }
#pragma unroll
  for (int step = 0; step < 4; ++step) {
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      uint32_t words[4];
      right.columns(words, part * 16, step);
      multiply_add<T>(result[2 * part], left[step], words[0], words[1]);
      multiply_add<T>(result[2 * part + 1], left[step], words[2], words[3]);
    }
  }
#endif
}

/// The same for 64 rows in shared memory: `left` is their tile.
template <class T>
__device__ __forceinline__ void start_scores(float (&result)[8][4], const FusedTile<64>& left,
                                             const FusedTile<64>& right) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    const uint64_t a = descriptor_of(left.base + step * 32), b = descriptor_of(right.base + step * 32);
    if (step == 0) {
      warpgroup_step<T, false>(result, a, b);
    } else {
      warpgroup_step<T, true>(result, a, b);
    }
  }
#else
  uint32_t words[4][4];
#pragma unroll
  for (int step = 0; step < 4; ++step) left.left(words[step], threadIdx.x / 32 % 4 * 16, step);
  start_scores<T>(result, words, right);
#endif
}

/// Starts sums += left · right, where step s of `left` is about rows 16 s to 16 s + 15.
template <class T>
__device__ __forceinline__ void start_add(float (&sums)[8][4], const uint32_t (&left)[4][4],
                                          const FusedTile<64>& right) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    warpgroup_step<T, true, true>(sums, left[step], descriptor_of(right.base + step * 16 * 128));
  }
#else
#pragma unroll
  for (int step = 0; step < 4; ++step) {
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      uint32_t words[4];
      right.rows(words, step * 16, part);
      multiply_add<T>(sums[2 * part], left[step], words[0], words[1]);
      multiply_add<T>(sums[2 * part + 1], left[step], words[2], words[3]);
    }
  }
#endif
}

/// Weights [8][4], rounded to T, as a left operand.
template <class T>
__device__ __forceinline__ void as_left(uint32_t (&left)[4][4], const float (&weights)[8][4]) {
#pragma unroll
  for (int step = 0; step < 4; ++step) {
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const float* two = &weights[2 * step + w / 2][w % 2 * 2];
      left[step][w] = two_of<T>(two[0], two[1]);
    }
  }
}

}  // namespace topomask::cuda

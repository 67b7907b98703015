#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

// 16 bytes at a time: how kernels read and write rows of nodes, whatever their type. A packet stays as it was stored
// until it is used, so that narrow types take few registers.

namespace topomask::cuda {

template <class T>
struct Accumulation {
  using Type = float;
};
template <>
struct Accumulation<double> {
  using Type = double;
};
/// float64 for float64, float32 for the others.
template <class T>
using Accumulated = typename Accumulation<T>::Type;

template <class T>
struct Packet {
  using A = Accumulated<T>;
  static constexpr int kSize = 16 / sizeof(T);

  uint4 raw = {};

  static __device__ __forceinline__ Packet load(const T* p) { return {__ldg(reinterpret_cast<const uint4*>(p))}; }
  static __device__ __forceinline__ void store(T* p, const A (&x)[kSize]) {
    uint4 raw;
    T* lanes = reinterpret_cast<T*>(&raw);
#pragma unroll
    for (int i = 0; i < kSize; ++i) lanes[i] = static_cast<T>(x[i]);
    *reinterpret_cast<uint4*>(p) = raw;
  }

  __device__ __forceinline__ A operator[](int i) const {
    if constexpr (std::is_same_v<T, __nv_bfloat16>) {  // the upper half of a float32, in one instruction
      const uint32_t word = reinterpret_cast<const uint32_t*>(&raw)[i / 2];
      return __uint_as_float(i % 2 == 0 ? word << 16 : word & 0xffff0000u);
    } else {
      return static_cast<A>(reinterpret_cast<const T*>(&raw)[i]);
    }
  }
};

}  // namespace topomask::cuda

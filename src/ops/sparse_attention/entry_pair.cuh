#pragma once

#include <type_traits>

#include "core/cuda/tensor_core.cuh"
#include "core/largest_exponent.h"
#include "ops/sparse_attention/cuda_kernel.h"

namespace topomask::cuda {

/// What waits of an entry between the passes of the backward.
template <class T, class A>
struct EntryPair {
  Pair<A> pair;
  __device__ __forceinline__ EntryPair(A weight, A grad_score) : pair{weight, grad_score} {}
  __device__ __forceinline__ Pair<A> get() const { return pair; }
};

/// In bfloat16 both are rounded as they will be multiplied, to one word.
template <class A>
struct EntryPair<__nv_bfloat16, A> {
  uint32_t word;
  __device__ __forceinline__ EntryPair(A weight, A grad_score) : word(two_of<__nv_bfloat16>(weight, grad_score)) {}
  __device__ __forceinline__ Pair<A> get() const {
    return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)};
  }
};

/// s − max of softmax: where M = 0 it may be anything, but exp of it stays finite, and so does its product with 0.
template <class A>
__device__ __forceinline__ A limited(A exponent) {
  constexpr A kLimit = kLargestExponent<A>;
  return exponent > kLimit ? kLimit : exponent;
}

template <class T, class A>
__device__ __forceinline__ EntryPair<T, A>* pairs_of(const AttentionBackwardArgs<T, A>& b) {
  static_assert(sizeof(EntryPair<T, A>) == kPairBytes<T, A>);
  return static_cast<EntryPair<T, A>*>(b.pairs);
}

}  // namespace topomask::cuda

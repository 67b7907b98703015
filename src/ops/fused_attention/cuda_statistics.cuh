#pragma once

#include "core/cuda/clamped.cuh"
#include "ops/fused_attention/cuda_kernel.h"

namespace topomask::cuda {

/// What the backward passes ask of a row: 1/D and ⟨∂L/∂out, out⟩, the latter 0 where D is clamped and does not move.
template <class T>
__device__ __forceinline__ void store_statistics(const FusedArgs<T>& a, const FusedGradArgs<T>& g, int64_t row,
                                                 float product) {
  const float d = a.denominator[row];
  const bool free = a.weighting == Weighting::additive || fabsf(d) >= a.eps;
  g.inverse[row] = 1.f / (free ? d : clamped(d, a.eps));
  g.delta[row] = free ? product : 0.f;
}

}  // namespace topomask::cuda

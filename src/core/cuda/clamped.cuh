#pragma once

namespace topomask::cuda {

template <class A>
__device__ __forceinline__ A clamped(A denominator, A eps) {
  if (fabs(denominator) >= eps) return denominator;
  return denominator < 0 ? -eps : eps;
}

}  // namespace topomask::cuda

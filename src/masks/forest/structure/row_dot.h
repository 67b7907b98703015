#pragma once

#include "core/simd.h"

namespace topomask {

/// ⟨a, b⟩, ⟨a, b + step⟩, … for four rows of `width` scalars, of which `count` exist.
template <class S>
TOPOMASK_INLINE typename S::Quad four_dots(const typename S::Scalar* a, const typename S::Scalar* b, int64_t step,
                                           int64_t count, int64_t width) {
  using Vector = typename S::Vector;
  const auto* b1 = b + (count > 1 ? step : 0);
  const auto* b2 = b + (count > 2 ? 2 * step : 0);
  const auto* b3 = b + (count > 3 ? 3 * step : 0);
  Vector sum0{}, sum1{}, sum2{}, sum3{};
  int64_t c = 0;
  for (; c + S::kLanes <= width; c += S::kLanes) {
    const Vector left = S::load(a + c);
    sum0 += left * S::load(b + c);
    sum1 += left * S::load(b1 + c);
    sum2 += left * S::load(b2 + c);
    sum3 += left * S::load(b3 + c);
  }
  typename S::Quad dots = S::sums(sum0, sum1, sum2, sum3);
  for (; c < width; ++c) dots += a[c] * typename S::Quad{b[c], b1[c], b2[c], b3[c]};
  return dots;
}

}  // namespace topomask

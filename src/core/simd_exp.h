#pragma once

#include <cmath>

#include "core/simd.h"

namespace topomask {

/// values[n] = exp(values[n]) in place for n < count; `values` has room up to the next multiple of kWidthUnit, and the
/// values there are overwritten. Arguments above 88 count as 88, so that the result is finite; below −87 the result is
/// 0; NaN stays NaN. Error of the float version: below 1.5 units in the last place.
template <int kBytes>
TOPOMASK_INLINE void exponentials(Simd<float, kBytes>, float* values, int64_t count) {
  using S = Simd<float, kBytes>;
  using Vector = typename S::Vector;
  typedef uint32_t Integers __attribute__((vector_size(kBytes)));
  for (int64_t n = 0; n < count; n += S::kLanes) {
    const Vector given = S::load(values + n);
    const Vector highest = Vector{} + 88.0f, lowest = Vector{} - 87.0f;
    Vector x = given > highest ? highest : given;
    x = x < lowest ? lowest : x;
    // exp(x) = 2^k exp(r), |r| ≤ ln 2 / 2. Adding 1.5·2²³ rounds to the integer k and leaves it in the low bits.
    const Vector rounding = Vector{} + 12582912.0f;
    const Vector shifted = x * 1.44269504f + rounding;
    const Vector k = shifted - rounding;
    const Vector r = (x - k * 0.693359375f) - k * -2.12194440e-4f;  // ln 2 in two parts: the first product is exact
    Vector p = r * 1.98412698e-4f + 1.38888889e-3f;
    p = p * r + 8.33333333e-3f;
    p = p * r + 4.16666667e-2f;
    p = p * r + 1.66666667e-1f;
    p = p * r + 0.5f;
    p = p * (r * r) + r;
    const Vector power = (Vector)(((Integers)shifted << 23) + 0x3f800000u);
    const Vector result = (p + 1.0f) * power;
    S::store(values + n, given < lowest ? Vector{} : result);
  }
}

template <int kBytes>
TOPOMASK_INLINE void exponentials(Simd<double, kBytes>, double* values, int64_t count) {
  for (int64_t n = 0; n < count; ++n) values[n] = std::exp(values[n] > 700 ? 700 : values[n]);
}

}  // namespace topomask

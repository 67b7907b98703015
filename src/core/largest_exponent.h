#pragma once

namespace topomask {

/// Softmax attention with a multiplicative mask: where M_ij = 0, exp(s_ij − max_i) is part of the gradient of M_ij
/// alone, and s_ij may exceed the maximum, which is over M_ij ≠ 0. Differences above this count as this, so that the
/// exponential, its product with 0 and with a gradient are finite: half of what the type can hold.
template <class T>
inline constexpr T kLargestExponent = sizeof(T) == 8 ? T(350) : T(44);

}  // namespace topomask

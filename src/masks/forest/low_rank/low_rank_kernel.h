#pragma once

#include <cstdint>

#include "masks/forest/low_rank/separable.h"
#include "masks/forest/structure/decomposition.h"

// Products with f(depth + depth), low rank, over components on raw pointers, for float and double: some columns of one
// (batch, head) slice at a time. Rows are by position, `stride` scalars apart.

namespace topomask {

template <class T>
struct LowRankArgs {
  const Component* components;
  const int32_t* groups;
  const double* depth;
  const Separable* const* functions;  ///< per component
  const T* x;
  T* y;
  int64_t stride;
  int64_t width;
  int64_t pitch;   ///< width rounded up to a multiple of kWidthUnit
  double* values;  ///< 2·rank scalars, of the largest rank
  T* factors;      ///< 2·kNodes·rank
  T* rows;         ///< 2·kNodes·pitch
  T* sums;         ///< 2·rank·pitch

  static constexpr int kNodes = 4;  ///< that are done at once
};

/// For components begin … end−1: y_i += Σ_j f(depth_i + depth_j) x_j over the pairs that meet there. What other groups
/// send is summed separately over the groups before and after the receiving one, never as a difference: growing
/// functions lose no digits.
void low_rank_components(const LowRankArgs<float>& args, int64_t begin, int64_t end);
void low_rank_components(const LowRankArgs<double>& args, int64_t begin, int64_t end);

}  // namespace topomask

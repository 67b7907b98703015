#pragma once

#include <cstdint>

// What a transformer block does to rows between matrix products, on rows in the cache: kernels over raw pointers.
// Widths are multiples of kWidthUnit (core/simd.h), as are those of heads.

namespace topomask::ops::block_rows {

/// LayerNorm of rows: n = (x − mean)·deviation·weight + bias, deviation = 1/√(variance + eps).
template <class T>
struct NormArgs {
  const T *x, *weight, *bias;
  T *n, *mean, *deviation;
  int64_t width;
  T eps;
};

/// Its gradient for dn: dx, with `also` added where given; weight and bias add up over the rows.
template <class T>
struct NormBackwardArgs {
  const T *dn, *x, *weight, *mean, *deviation, *also;
  T *dx, *dweight, *dbias;
  int64_t width;
};

/// Between rows [rows, parts·heads·d] and parts of heads [heads, N, d]. The first `features` parts are features
/// max(·, 0) + offset on the way out; on the way in, gradients pass where a feature is above its offset.
template <class T>
struct HeadArgs {
  T* rows;
  T* parts[3];                        ///< at the first row of the chunk
  const T* features[3];               ///< for gradients; null where all pass
  int64_t count, heads, dim, stride;  ///< stride from head to head
  T offset;
};

/// sums += the sum of the rows.
template <class T>
struct SumArgs {
  const T* rows;
  T* sums;
  int64_t width;
};

#define TOPOMASK_BLOCK_ROWS(name, Args)                           \
  void name(const Args<float>& args, int64_t begin, int64_t end); \
  void name(const Args<double>& args, int64_t begin, int64_t end);
TOPOMASK_BLOCK_ROWS(norm_rows, NormArgs)
TOPOMASK_BLOCK_ROWS(norm_backward_rows, NormBackwardArgs)
TOPOMASK_BLOCK_ROWS(feature_rows, HeadArgs)  ///< rows → parts, features where features[p] is not null
TOPOMASK_BLOCK_ROWS(gather_rows, HeadArgs)   ///< parts → rows, through the features where given
TOPOMASK_BLOCK_ROWS(sum_rows, SumArgs)
#undef TOPOMASK_BLOCK_ROWS

}  // namespace topomask::ops::block_rows

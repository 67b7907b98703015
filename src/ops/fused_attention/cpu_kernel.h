#pragma once

#include <cstdint>

#include "core/internal_api.h"
#include "ops/fused_attention/tile_mask.h"

// Rows of tiles of fused attention on raw pointers: from scores to weights, and from weights to gradients. Columns come
// as a range [0, end); `scores` and `grads` have room up to the next multiple of kWidthUnit.

namespace TOPOMASK_INTERNAL_API topomask {
namespace ops::fused_attention {

/// Values of M in the next `count` columns of a row.
template <class T>
struct MaskRun {
  const T* values;
  int64_t count;
};

/// Scores of one row become weights, in place. `total` grows by their sum. Softmax: `largest` becomes the largest
/// exponent so far, to which these weights are relative, and earlier ones are to be multiplied by `keep`.
template <class T>
struct WeighArgs {
  T* scores;
  const MaskRun<T>* mask;  ///< runs that follow one another and end with the range
  T scale;
  Weighting weighting;
  double* total;
  T* largest;
  T* keep;
};

/// scores: in <q_i, k_j>, out the weight of v_j in out_i; grads: in <grad_i, v_j>, out the gradient of the score;
/// mask_grads: out the gradient of M_ij, where it is given.
template <class T>
struct PullArgs {
  T* scores;
  T* grads;
  const MaskRun<T>* mask;
  T* mask_grads;
  T scale, inverse, delta, largest;
  Weighting weighting;
};

void weigh_row(const WeighArgs<float>& args, int64_t begin, int64_t end);
void weigh_row(const WeighArgs<double>& args, int64_t begin, int64_t end);
void pull_row(const PullArgs<float>& args, int64_t begin, int64_t end);
void pull_row(const PullArgs<double>& args, int64_t begin, int64_t end);

}  // namespace ops::fused_attention
}  // namespace topomask

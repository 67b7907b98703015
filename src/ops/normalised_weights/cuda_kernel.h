#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

// The rows of dense masked attention on the GPU: raw pointers, sizes and a stream.

namespace topomask::cuda {

/// scores [batch, heads, rows, cols] in T, mask [mask_heads, rows, cols] and denominator [batch, heads, rows] in A. A
/// row is a multiple of 16 bytes long and at most kLongestRow·16.
template <class T, class A>
struct WeightsArgs {
  const T* scores;
  const A* mask;
  A* denominator;
  int64_t batch, heads, mask_heads, rows, cols;
  A eps;
};

inline constexpr int64_t kLongestRow = 128;  // packets of 16 bytes: 4 a lane

/// weights = mask ⊙ scores / D, and D before its clamp.
template <class T, class A>
void normalised_weights(const WeightsArgs<T, A>& args, T* weights, cudaStream_t stream);

/// The gradients of scores, and of the mask as `parts` sums [parts, mask_heads, rows, cols] over parts of what shares
/// it.
template <class T, class A>
void normalised_weights_backward(const WeightsArgs<T, A>& args, const T* grad, T* grad_scores, A* grad_mask,
                                 int64_t parts, cudaStream_t stream);

}  // namespace topomask::cuda

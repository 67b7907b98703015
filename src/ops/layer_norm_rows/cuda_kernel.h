#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

// LayerNorm of contiguous rows of `width` values, a multiple of 4 up to 256. T, the type of x, is float, __nv_bfloat16
// or __half; O, that of the result and its gradient, is T, or any of the three where T is float.

namespace topomask::cuda {

struct NormSizes {
  int64_t rows;
  int width;
};

/// mean and rstd [rows].
template <class T, class O>
void layer_norm_rows(const T* x, const float* weight, const float* bias, O* out, float* mean, float* rstd, float eps,
                     const NormSizes& sizes, cudaStream_t stream);

/// The number of blocks of the backward pass, each of which leaves a sum of its own.
int layer_norm_rows_blocks(const NormSizes& sizes);

/// grad_x, and sums [blocks, 2, width]: what the rows of each block add to the gradients of weight and bias.
template <class T, class O>
void layer_norm_rows_backward(const O* grad, const T* x, const float* weight, const float* mean, const float* rstd,
                              T* grad_x, float* sums, const NormSizes& sizes, cudaStream_t stream);

}  // namespace topomask::cuda

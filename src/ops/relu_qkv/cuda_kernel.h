#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

// max(x, 0) + offset of the queries and keys in [B, N, 3, H, d], and the gradient of all three parts. T is float,
// double, __nv_bfloat16 or __half; d is a multiple of 8 and rows are 16-byte aligned, 16 bytes a thread.

namespace topomask::cuda {

struct QkvSizes {
  int64_t batch, nodes;
  int heads, width;  ///< width: d
};

/// Rows of a tensor [B, H, N, d], each contiguous.
template <class T>
struct HeadRows {
  const T* data;
  int64_t batch, head, row;  ///< strides
};

/// features [B, N, 2, H, d].
template <class T>
void relu_qkv(const T* qkv, T* features, double offset, const QkvSizes& sizes, cudaStream_t stream);

/// grad [B, N, 3, H, d].
template <class T>
void relu_qkv_backward(const HeadRows<T>& grad_q, const HeadRows<T>& grad_k, const HeadRows<T>& grad_v, const T* qkv,
                       T* grad, const QkvSizes& sizes, cudaStream_t stream);

}  // namespace topomask::cuda

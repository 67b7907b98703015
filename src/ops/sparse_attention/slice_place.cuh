#pragma once

#include "ops/cuda/row_tile.cuh"
#include "ops/sparse_attention/cuda_kernel.h"

namespace topomask::cuda {

/// Where slice b H + h starts in tensors [B, H, N, C].
struct SlicePlace {
  unsigned batch, head;

  __device__ __forceinline__ SlicePlace(int64_t slice, int64_t heads)
      : batch(static_cast<unsigned>(slice) / static_cast<unsigned>(heads)),
        head(static_cast<unsigned>(slice) - batch * static_cast<unsigned>(heads)) {}

  template <class T>
  __device__ __forceinline__ T* of(T* rows, const RowStrides& strides) const {
    return rows + batch * strides.batch + head * strides.head;
  }
  template <class T>
  __device__ __forceinline__ Nodes<T> nodes(const T* rows, const RowStrides& strides, int width) const {
    return {of(rows, strides), width, strides.row};
  }
};

}  // namespace topomask::cuda

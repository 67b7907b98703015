#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

// Products with a CSR matrix on the GPU: the twins of cpu_kernel.h, all slices in one launch. T is float, double,
// __nv_bfloat16 or __half, A its accumulation type. Widths are multiples of 8, rows contiguous and 16-byte aligned. A
// row may name a column more than once.

namespace topomask::cuda {

/// y = M x per slice; the value of entry e is values[index[e]], or values[e] where index is null.
template <class T, class A>
struct SpmmArgs {
  const int64_t* offsets;
  const int32_t* columns;
  const int64_t* index;
  const A* values;
  const T* x;
  T* y;
  int64_t rows, cols, entries;
  int64_t slices, heads, value_heads;
  int width;
  int longest_short_row;  ///< long_rows.h
};

/// out_e = Σ over the slices of a strand of a_i · b_j, e = (i, j); slice s belongs to strand s mod strands.
template <class T, class A>
struct SddmmArgs {
  const int64_t* offsets;
  const int32_t* columns;
  const T* a;
  const T* b;
  A* out;  ///< [strands, entries]
  int64_t rows, cols, entries;
  int64_t slices, strands;
  int width;
  int longest_short_row;
};

template <class T, class A>
void spmm(const SpmmArgs<T, A>& args, cudaStream_t stream);
template <class T, class A>
void sddmm(const SddmmArgs<T, A>& args, cudaStream_t stream);

}  // namespace topomask::cuda

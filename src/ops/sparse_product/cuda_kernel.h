#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

// Products of sparse matrices on the GPU: kernels over raw pointers and a stream.

namespace topomask::cuda {

/// A·Bᵀ over a pattern, as ProductArgs of the CPU has it, for all heads: arrays of values are [H, entries].
template <class T>
struct ProductArgs {
  const int64_t* a_offsets;
  const int32_t* a_columns;
  const int64_t* bt_offsets;
  const int32_t* bt_columns;
  const T* bt_values;
  const int64_t* out_offsets;
  const int32_t* out_columns;
  const int64_t* out_index;  ///< null, or the place of each entry of the product among its values
  const T* from;             ///< values of A; or of the gradient of the product
  T* to;                     ///< values of the product; or the gradient of A
  int64_t rows;
  int64_t heads;
  int64_t a_entries, b_entries, out_entries;
};

/// to[e] = Σ_c A_ic B_jc for each entry e = (i, j) of the pattern. The order of every sum is fixed.
template <class T>
void product(const ProductArgs<T>& args, cudaStream_t stream);

/// ∂⟨G, A·Bᵀ⟩/∂A.
template <class T>
void product_grad(const ProductArgs<T>& args, cudaStream_t stream);

}  // namespace topomask::cuda

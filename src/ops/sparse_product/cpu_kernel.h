#pragma once

#include <cstdint>

// A·Bᵀ for sparse A and B over a given pattern, on raw pointers, one head at a time. B comes as the CSR of its
// transpose with the values in that order, so that only pairs that meet in a column are visited.

namespace topomask::ops::sparse_product {

template <class T>
struct ProductArgs {
  const int64_t* a_offsets;
  const int32_t* a_columns;
  const int64_t* bt_offsets;  ///< row c of Bᵀ: the rows of B that hold column c
  const int32_t* bt_columns;
  const T* bt_values;
  const int64_t* out_offsets;
  const int32_t* out_columns;
  const int64_t* out_index;  ///< null, or the place of each entry of the product among its values
  const T* from;             ///< values of A; or of the gradient of the product
  T* to;                     ///< values of the product; or the gradient of A
  T* workspace;              ///< one scalar per column of the product, zero
};

/// to[e] = Σ_c A_ic B_jc for each entry e = (i, j) of the pattern in rows begin … end-1, whatever it leaves out.
/// Cost: Σ over the entries (i, c) of A of the entries of column c of B.
template <class T>
void product_rows(const ProductArgs<T>& args, int64_t begin, int64_t end);

/// ∂⟨G, A·Bᵀ⟩/∂A: to[e] = Σ_j G_ij B_jc for each entry e = (i, c) of A, over the entries j of row i of the pattern.
/// Leaves the workspace zero. The same cost.
template <class T>
void product_grad_rows(const ProductArgs<T>& args, int64_t begin, int64_t end);

}  // namespace topomask::ops::sparse_product

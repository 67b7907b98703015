#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/internal_api.h"

// Products of two sparse matrices over a pattern made beforehand (ops/product_pattern). Values are [H, entries],
// float32 or float64; patterns have their transpose (PatternTensors::kBoth). Differentiable once, in the values; no
// atomics, the same for any number of threads.

namespace TOPOMASK_INTERNAL_API topomask {
namespace ops::sparse_product {

/// A·Bᵀ at the entries of `out` [rows of A, rows of B]: the operator `sparse_product`. Cost, also of each gradient: Σ
/// over the entries (i, c) of A of the entries of column c of B, for each head.
at::Tensor multiply(const at::Tensor& a, const at::Tensor& b, at::TensorList a_pattern, at::TensorList b_pattern,
                    at::TensorList out);

/// A·Aᵀ at the entries of `out`, which must be symmetric: one pass back in place of two. The operator `sparse_gram`.
at::Tensor gram(const at::Tensor& a, at::TensorList a_pattern, at::TensorList out);

/// ∂⟨grad, A·Bᵀ⟩/∂A, or with `transposed` ∂⟨gradᵀ, A·Bᵀ⟩/∂A: the gradient in B, once A and B have changed places. The
/// operator `sparse_product_backward`.
at::Tensor backward(const at::Tensor& grad, const at::Tensor& b, at::TensorList a_pattern, at::TensorList b_pattern,
                    at::TensorList out, bool transposed);

// What the implementations share.

struct CsrTensors {
  at::Tensor offsets, columns;
  at::Tensor index = {};  ///< the place of each entry among the values, where that is another
};

/// A·Bᵀ at the entries of `out`, or the gradient in A.
struct ProductTensors {
  at::Tensor from;  ///< values of A, or the gradient of the product: [H, entries]
  at::Tensor b;     ///< values of B, [H, entries]
  CsrTensors a;
  CsrTensors bt;   ///< Bᵀ, with its index
  CsrTensors out;  ///< the product
  int64_t b_rows;  ///< the columns of the product
};

ProductTensors check_product(const at::Tensor& a, const at::Tensor& b, at::TensorList a_pattern,
                             at::TensorList b_pattern, at::TensorList out);
ProductTensors check_gram(const at::Tensor& a, at::TensorList a_pattern, at::TensorList out);
ProductTensors check_backward(const at::Tensor& grad, const at::Tensor& b, at::TensorList a_pattern,
                              at::TensorList b_pattern, at::TensorList out, bool transposed);

}  // namespace ops::sparse_product
}  // namespace topomask

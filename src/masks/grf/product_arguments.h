#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace topomask {

// What the operators of sparse products take, on any device, and the checks they share.

/// A pattern is a list of its five tensors: offsets, columns, and those of the transpose with its index.
inline constexpr size_t kPatternTensors = 5;

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
/// Of ∂⟨grad, A·Bᵀ⟩/∂A, or with `transposed` ∂⟨gradᵀ, A·Bᵀ⟩/∂A: the gradient in B, once A and B have changed places.
ProductTensors check_product_backward(const at::Tensor& grad, const at::Tensor& b, at::TensorList a_pattern,
                                      at::TensorList b_pattern, at::TensorList out, bool transposed);

}  // namespace topomask

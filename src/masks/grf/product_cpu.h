#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace topomask {

// CPU products on checked tensors: values [H, entries] of one dtype, patterns as CSR. They call no dispatcher and
// record no gradient: for the operators' own implementations.

struct CsrTensors {
  at::Tensor offsets, columns;
  at::Tensor index = {};  ///< the place of each entry among the values, where that is another
};

/// A·Bᵀ at the entries of `out`; `bt` is Bᵀ, with its index. `b_rows`: the columns of the product.
at::Tensor product_plain(const at::Tensor& a, const at::Tensor& b, const CsrTensors& a_pattern, const CsrTensors& bt,
                         const CsrTensors& out, int64_t b_rows);

/// ∂⟨grad, A·Bᵀ⟩/∂A.
at::Tensor product_grad_plain(const at::Tensor& grad, const at::Tensor& b, const CsrTensors& a_pattern,
                              const CsrTensors& bt, const CsrTensors& out, int64_t b_rows);

}  // namespace topomask

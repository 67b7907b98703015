#pragma once

#include <ATen/core/Tensor.h>

#include "harness.h"
#include "topomask/sparse.h"

// What a user of torch alone would write, in the best form found; each is measured as the library is.
// q, k [N, m] are features already, v [N, d]; float32.
namespace topomask::bench {

/// A mask as torch's sparse CSR tensors, made once. `indices` is int64, as torch makes CSR tensors, or int32, which its
/// MKL wants and would otherwise convert to at each call.
struct CsrMask {
  CsrMask(const SparseMatrix& matrix, at::ScalarType indices);

  int64_t nodes;
  at::Tensor matrix;   ///< M
  at::Tensor pattern;  ///< zeros where M has entries
  at::Tensor transposed_offsets, transposed_columns, transposed_index;

  /// (the matrix on M's pattern with these values)ᵀ
  at::Tensor transposed(const at::Tensor& values) const;
};

/// D⁻¹(M ⊙ QKᵀ)V as torch.sparse spells it: `sampled_addmm` on the pattern, times M, CSR products with V and 1.
at::Tensor sddmm_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const CsrMask& mask);
/// The same past the tensor interface: M multiplied into the values in place, one CSR product with [V, 1]. The fastest
/// form found.
at::Tensor tuned_sddmm_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const CsrMask& mask);
/// The output and ∂/∂q, ∂/∂k, ∂/∂v, written out with the same two operations: autograd through a CSR product whose
/// sparse side needs a gradient is slower by far.
Tensors sddmm_gradients(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& grad,
                        const CsrMask& mask);

/// Algorithm 1 of Reid et al. (2024): the CSR products of `factors`, the last first, with the rows φ(k_j) ⊗ (v_j, 1),
/// then the contraction with φ(q_i). {Φ₁, Φ₂ᵀ}, or {M} for Φ₁ = M, Φ₂ = I. Over slices of features of at most
/// `slice_bytes`: kWhole is the algorithm as it stands, until a gigabyte; kCached slices stay in the cache, which the
/// paper does not do and is faster. Differentiable.
inline constexpr int64_t kWhole = int64_t{1} << 30, kCached = int64_t{16} << 20;
at::Tensor algorithm1(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Tensors& factors,
                      int64_t slice_bytes);

/// The additive mask of `sdpa`: log M, −inf where M has no entry. [N, N].
at::Tensor dense_log_mask(const SparseMatrix& matrix);
/// Softmax attention with a dense additive mask. Differentiable.
at::Tensor sdpa(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& log_mask);

/// Linear attention without a mask. Differentiable.
at::Tensor linear_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

}  // namespace topomask::bench

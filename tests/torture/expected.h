#pragma once

#include <vector>

#include "topomask/attention.h"
#include "torture/features.h"
#include "torture/reference.h"

namespace topomask::torture {

/// How far results may be off: a part of the scale that goes with each of them.
struct Tolerance {
  double rounding;  ///< of the dtype of q, k and v, with a margin for sums
  double inside;    ///< of the accumulation type
  double mask;      ///< of the entries of the mask, besides rounding

  double total() const { return rounding + mask; }
  /// The least normal number of the accumulation type: what is below it may come out as zero.
  double tiny() const;
};
Tolerance tolerance_of(at::ScalarType dtype, double mask_accuracy);

/// Attention over dense matrices in double, and a scale for the rounding error of each result.
///
/// A row i with weights w_ij sums E_ij ≥ |w_ij| in absolute terms, so that its denominator is known to tol·Σ_j E_ij,
/// and its condition is κ_i = Σ_j E_ij/|D_i|. Rows with κ_i·tol < 0.1 are sound: their error is at most tol·Σ_j
/// E_ij(|v_j| + |out_i|)/|D_i|. The others, and those where rounding decides whether or how D_i is clamped, are judged
/// by the backward error only: |out_i| ≤ Σ_j E_ij|v_j|/(the least |D_i| that rounding allows). Gradients are taken with
/// cotangents that are zero on such rows, and are judged relative to the sums of the absolute values that they consist
/// of.
struct Expected {
  at::Tensor out;       ///< differentiable in q, k, v and the mask's parameters
  at::Tensor scale;     ///< like out; the bound itself on rows that are not sound
  at::Tensor sound;     ///< bool [..., N, 1]
  at::Tensor weighted;  ///< E_ij/|D_i|·κ_i, [..., N, N]
  at::Tensor inverse;   ///< κ_i/|D_i|, [..., N, 1]
  at::Tensor entries;   ///< |∂w_ij/∂M_ij| [..., N, N]
  at::Tensor sums;      ///< E_ij, [..., N, N]
  at::Tensor spread;    ///< Σ_j E_ij|v_j|/|D_i|: a bound of |out| without cancellation
};

struct Scales {
  at::Tensor q, k, v;  ///< of the gradients of φ(q), φ(k) (kernel) or q, k (softmax), and of v
  at::Tensor matrix;   ///< of ∂L/∂M_ij, [..., N, N]
};

struct KernelProblem {
  at::Tensor phi_q, phi_k, v;  ///< double; phi differentiable in q and k
  at::Tensor size_q, size_k;   ///< magnitudes of phi
  MaskValue mask;
  double eps;
};
Expected expected_attention(const KernelProblem& problem, const Tolerance& tolerance);
Scales attention_scales(const KernelProblem& problem, const Expected& expected, const at::Tensor& cotangent);

struct SoftmaxProblem {
  at::Tensor q, k, v;
  MaskValue mask;
  bool additive;
  double scale, eps;
};
Expected expected_softmax(const SoftmaxProblem& problem, const Tolerance& tolerance);
Scales softmax_scales(const SoftmaxProblem& problem, const Expected& expected, const at::Tensor& cotangent);

}  // namespace topomask::torture

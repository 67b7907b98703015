#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "topomask/sparse.h"

namespace topomask {

// The registered attention operators, called through the dispatcher: autograd, autocast and tracing see them.
// q, k [B, H, N, m] and v [B, H, N, d] of one dtype (float64, float32 or bfloat16), any strides; the values of a matrix
// have 1 or H heads and the accumulation type (float64 beside float64, float32 beside the others). Differentiable once,
// in q, k, v and values. The result does not depend on the number of threads.

/// out_i = Σ_j A_ij v_j / D_i, A_ij = M_ij (q_i·k_j), over the entries of M [N, N]. D_i is den_i = Σ_j A_ij kept at
/// least eps from zero, with its sign (0 counts as +). Returns out [B, H, N, d] in the dtype of v, and den [B, H, N]
/// before the clamp, in the accumulation type and without gradient. Cost: entries·(m + d) per slice. Where a gradient
/// is wanted and 2·entries ≤ N·(m + d), a scalar per entry and slice is kept for the backward, which saves it
/// entries·m.
std::tuple<at::Tensor, at::Tensor> sparse_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                    const SparseMatrix& matrix, double eps);

/// The same with A_ij = M_ij exp(scale·q_i·k_j − max_i), max_i over the entries with M_ij ≠ 0 (0 in a row without any).
/// Returns out, max and den; the last two [B, H, N], in the accumulation type and without gradient.
std::tuple<at::Tensor, at::Tensor, at::Tensor> sparse_softmax_attention(const at::Tensor& q, const at::Tensor& k,
                                                                        const at::Tensor& v, const SparseMatrix& matrix,
                                                                        double scale, double eps);

/// (M ⊙ q kᵀ)[v, 1] for M = Φ₁Φ₂ᵀ, Φ₁ = left and Φ₂ = right [N, r], without forming M: numerator [B, H, N, d] and
/// denominator [B, H, N], both in the accumulation type and both differentiable. Streams over slices of the m features.
/// Cost: (entries of Φ₁ and Φ₂)·m·(d + 1) per slice.
std::tuple<at::Tensor, at::Tensor> factored_product(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                    const SparseMatrix& left, const SparseMatrix& right);

/// M ⊙ scores / D, the rows of a dense attention matrix: scores [B, H, N, P], mask M [1 or H, N, P] in the accumulation
/// type; D as above, the sum over P. On a GPU one kernel each way, whose gradient of M is summed in a fixed order.
at::Tensor normalised_weights(const at::Tensor& scores, const at::Tensor& mask, double eps);

}  // namespace topomask

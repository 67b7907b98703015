#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "topomask/export.h"
#include "topomask/feature_map.h"
#include "topomask/mask.h"
#include "topomask/planner.h"

namespace TOPOMASK_API topomask {

/// Shapes, throughout: q, k [..., N, d_k] and v [..., N, d], the same leading dimensions; a mask with H > 1 heads needs
/// dimension −3 to be H. q, k and v are float64, float32, or bfloat16 with float32 accumulation. The mask must be in
/// float64 for float64 inputs and in float32 for the others; otherwise it is refused (`mask->to(dtype)` converts it).
struct AttentionOptions {
  FeatureMap features = FeatureMap::relu();
  Route route =
      Route::automatic;  ///< a route asked by name is taken, whatever it costs, or refused where the mask lacks it
  /// The denominator D_i is kept at least this far from zero, with its sign; a row of M that is all zero gives zeros.
  /// Finite and > 0, in the range of the type that sums are kept in.
  double eps = 1e-6;
  int64_t memory_budget = kDefaultMemoryBudget;  ///< bytes >= 0, beyond inputs and output, for the planner
};

/// Kernel attention with a multiplicative mask: out = D⁻¹(M ⊙ φ(Q)φ(K)ᵀ)V, D = diag((M ⊙ φ(Q)φ(K)ᵀ)1). Returns [..., N,
/// d]. Differentiable once, in q, k, v and the mask's parameters.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const MaskPtr& mask,
                     const AttentionOptions& options = {});

/// The routes with their estimated time and memory, the choice and why; prints as a table.
Plan explain(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const MaskPtr& mask,
             const AttentionOptions& options = {});

enum class SoftmaxMask {
  /// Weights M_ij·exp(s_ij), normalised: softmax(S + log M) where M > 0 and no denominator is below eps
  /// (docs/numerics.md), absent pairs excluded. Sparse, fused, strips or dense route.
  /// A pair with M_ij = 0 weighs nothing; its gradient in M_ij is exp(s_ij)·(v_j − out_i)/D_i, as for any other.
  multiplicative,
  /// softmax(S + M): an absent entry is bias 0, so every pair attends: O(N²) time; the fused route takes O(N·d) memory,
  /// strips a few rows of M more.
  additive,
};

struct SoftmaxOptions {
  SoftmaxMask mask = SoftmaxMask::multiplicative;
  std::optional<double> scale = {};  ///< S = scale·QKᵀ, finite; 1/√d_k where empty
  Route route = Route::automatic;    ///< sparse, fused, strips or dense
  double eps = 1e-6;                 ///< this and the next one are as in AttentionOptions
  int64_t memory_budget = kDefaultMemoryBudget;
};

/// Softmax attention modulated by a mask, in one of the two senses above. Returns [..., N, d].
at::Tensor softmax_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const MaskPtr& mask,
                             const SoftmaxOptions& options = {});

}  // namespace topomask

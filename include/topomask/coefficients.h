#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "topomask/export.h"

namespace TOPOMASK_API topomask {

// Modulation functions f: the coefficients of Φ = Σ_k f_k W^k for which ΦΦᵀ = κ(W), W symmetric. Each returns the first
// `terms` of them, float64 [terms]; 0 ≤ terms ≤ 2²⁴. Parameters must be finite and give finite coefficients.

/// κ(x) = exp(bx), the diffusion (heat) kernel: f_k = b^k/(2^k k!).
at::Tensor diffusion_coefficients(int64_t terms, double b = 1.0);

/// κ(x) = (1 − x)^−d, the d-regularised Laplacian kernel: f_k = C(d/2 + k − 1, k). Converges where the spectral radius
/// of W is below 1.
at::Tensor regularised_laplacian_coefficients(int64_t terms, double d = 2.0);

/// κ(x) = (1 + x)^p, the p-step random walk kernel: f_k = C(p/2, k), which ends at k = p/2 where p is even.
at::Tensor random_walk_coefficients(int64_t terms, double p = 2.0);

/// κ(x) = cos x + sin x, the cosine kernel: f = 1, 1/2, −3/8, 5/48, … Converges where the spectral radius of W is below
/// π/4: κ has a zero at −π/4.
at::Tensor cosine_coefficients(int64_t terms);

/// α = f∗f∗…∗f with `factors` copies, so that M_α = Σ α_k W^k = Φ^factors. f [K] or [H, K], float32 or float64;
/// differentiable. f finite, factors in [1, 2¹⁶]. The first `terms` of α, K where empty; 1 + factors·(K − 1) of them
/// are all that can be nonzero.
at::Tensor convolve(const at::Tensor& f, int64_t factors = 2, std::optional<int64_t> terms = {});

/// The inverse: f with f∗…∗f = α to α's length, f₀ = α₀^{1/factors} > 0. `factors` = 2 for ΦΦᵀ, 2l for stitching.
/// alpha [K] or [H, K], finite, with α₀ > 0 in each row; differentiable. O(K²).
at::Tensor deconvolve(const at::Tensor& alpha, int64_t factors = 2);

}  // namespace topomask

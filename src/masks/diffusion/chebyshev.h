#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "core/internal_api.h"
#include "masks/diffusion/generator.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// e^{−z} I_k(z) for k = 0, 1, … until they are below 1e-20: modified Bessel functions, scaled. They sum to 1 with
/// every k > 0 counted twice. z ≥ 0.
std::vector<double> scaled_bessel(double z);

/// The c_k of exp(−λT) ≈ Σ_{k≤K} c_k T_k(B), B = (T − centre)/halfwidth with its spectrum in [−1, 1], K the least
/// degree that keeps the error below tolerance·‖exp(−λT)‖.
std::vector<double> chebyshev_coefficients(double lambda, const Spectrum& spectrum, double tolerance);

/// Σ_k series[h][k] T_k(B) x for x [B, H, N, C], head h.
at::Tensor chebyshev_product(const GeneratorMatrix& matrix, const Spectrum& spectrum,
                             const std::vector<std::vector<double>>& series, const at::Tensor& x);

/// The coefficients of the same series to as many terms as its derivative in T needs for that accuracy.
std::vector<double> chebyshev_gradient_coefficients(double lambda, const Spectrum& spectrum, double tolerance);

/// ∂⟨grad, Σ_k series[h][k] T_k(B) x⟩/∂T for x, grad [B, H, N, C], summed over batch and heads: on the entries of
/// matrix.edges and on the diagonal. Three products with T and two sampled ones per term, and memory for about 3√K
/// tensors like x.
struct GeneratorGradient {
  at::Tensor edges;     ///< [E]
  at::Tensor diagonal;  ///< [N]
};
GeneratorGradient chebyshev_gradient(const GeneratorMatrix& matrix, const Spectrum& spectrum,
                                     const std::vector<std::vector<double>>& series, const at::Tensor& x,
                                     const at::Tensor& grad);

/// series as a tensor [K + 1, 1, H, 1, 1] like x; heads of lower degree have zeros above.
at::Tensor coefficient_table(const std::vector<std::vector<double>>& series, const at::Tensor& x);

}  // namespace topomask

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <numbers>

#include "core/checks.h"
#include "topomask/diffusion.h"

namespace topomask {

FourierFactors random_fourier_factors(const at::Tensor& points, const FourierOptions& options) {
  constexpr const char* kOp = "random_fourier_factors";
  TORCH_CHECK(points.defined() && points.dim() == 2 && is_real(points.scalar_type()) && points.device().is_cpu(), kOp,
              ": points must be Float or Double [N, dims] on cpu, got ", describe(points));
  check_finite(kOp, "points", points);
  TORCH_CHECK(std::isfinite(options.radius) && options.radius > 0, kOp, ": radius must be finite and > 0, got ",
              options.radius);
  TORCH_CHECK(options.features >= 1, kOp, ": features must be >= 1, got ", options.features);
  checked_product(kOp, "the factors, N x 2 x features,", {points.size(0), 2, options.features}, kMostNumbers);
  checked_product(kOp, "the frequencies, features x dims,", {options.features, points.size(1)}, kMostNumbers);

  // A kernel f(z) = ∫ τ(ω) cos(ω·z) dω is the mean of τ(ω)/p(ω)·cos(ω·z) over frequencies ω drawn from p, here normal
  // with the deviation of the Gaussian part of τ; the weight is what is left of τ, one factor per coordinate.
  const bool box = options.kernel == NeighbourKernel::box;
  const double blur = box ? options.radius / 2 : options.radius;
  const auto generator = at::detail::createCPUGenerator(options.seed);
  const at::Tensor omega = at::randn({options.features, points.size(1)}, generator, at::dtype(at::kDouble)) / blur;
  at::Tensor weights = at::full({options.features}, 1.0 / static_cast<double>(options.features), at::kDouble);
  if (box) {
    // τ = ∏ sin(εω_c)/(πω_c)·exp(−s²ω_c²/2); p = ∏ s/√(2π)·exp(−s²ω_c²/2).
    const double constant = options.radius / blur * std::sqrt(2 / std::numbers::pi);
    weights = weights * (constant * at::sinc(omega * (options.radius / std::numbers::pi))).prod(-1);
  }
  const at::Tensor phases = at::matmul(points, omega.to(points.scalar_type()).t());
  const at::Tensor v = at::cat({phases.cos(), phases.sin()}, -1);
  return {v * at::cat({weights, weights}).to(points.scalar_type()), v};
}

}  // namespace topomask

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "core/library_tasks.h"
#include "masks/diffusion/generator.h"
#include "masks/diffusion/lanczos.h"

namespace topomask {
namespace {

/// Gershgorin: every eigenvalue lies in a disc around a diagonal entry, as wide as the rest of its row.
Spectrum gershgorin(const GeneratorMatrix& matrix) {
  const SparsePattern& pattern = *matrix.edges.pattern;
  const at::Tensor values = matrix.edges.values.to(at::kDouble), diagonal = matrix.diagonal.to(at::kDouble);
  const at::Tensor rows = at::repeat_interleave(pattern.offsets().diff());
  const at::Tensor loops = at::where(rows == pattern.columns(), values, 0.0);
  const auto row_sums = [&](const at::Tensor& entries) {
    return at::zeros_like(diagonal).index_add_(0, rows, entries);
  };
  const at::Tensor centres = diagonal + row_sums(loops), radii = row_sums((values - loops).abs());
  const double lower = (centres - radii).min().item<double>();
  return {lower, (centres + radii).max().item<double>(), centres.min().item<double>()};
}

}  // namespace

Spectrum spectrum_bounds(const GeneratorMatrix& matrix, Generator generator) {
  if (matrix.nodes() == 0) return {};
  Spectrum spectrum = gershgorin(matrix);
  const at::Tensor& values = matrix.edges.values;
  const bool nonnegative = values.numel() == 0 || values.max().item<double>() <= 0;  // of A = −T off the diagonal
  if (generator == Generator::normalised_laplacian) return {0, std::min(2.0, spectrum.upper), 0};

  // Some steps of Lanczos from a random vector: the extreme Ritz values converge first, each to within its residual.
  // Twice that, inside the discs, is what is relied on.
  constexpr int64_t kSteps = 48;
  constexpr double kMargin = 2;
  const at::Tensor start =
      at::randn({1, 1, matrix.nodes(), 1}, at::detail::createCPUGenerator(0), values.scalar_type()).to(values.device());
  LanczosProcess process(matrix, start);
  const int64_t steps = std::min(kSteps, matrix.nodes());
  do process.step();
  while (process.size() < steps && process.residual().item<double>() > 0);
  const OneLibraryThread alone;
  const auto [ritz, vectors] = at::linalg_eigh(process.tridiagonal().reshape({process.size(), process.size()}));
  const at::Tensor residuals = vectors[-1].abs() * process.residual().item<double>();
  const auto value = [](const at::Tensor& x, int64_t place) { return x[place].item<double>(); };
  const double rounding = 1e-6 * (spectrum.upper - spectrum.lower);
  spectrum.lowest = std::min(spectrum.lowest, value(ritz, 0));
  spectrum.lower = std::max(spectrum.lower, value(ritz, 0) - kMargin * value(residuals, 0) - rounding);
  spectrum.upper = std::min(spectrum.upper, value(ritz, -1) + kMargin * value(residuals, -1) + rounding);
  // A Laplacian of weights ≥ 0 has the eigenvalue 0, and none below.
  if (generator == Generator::laplacian && nonnegative) spectrum.lower = spectrum.lowest = 0;
  return spectrum;
}

}  // namespace topomask

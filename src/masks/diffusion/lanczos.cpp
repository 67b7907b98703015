#include "masks/diffusion/lanczos.h"

#include <ATen/ATen.h>

#include "core/library_tasks.h"
#include "core/ordered_sums.h"

namespace topomask {

LanczosProcess::LanczosProcess(const GeneratorMatrix& matrix, const at::Tensor& x) : matrix_(matrix) {
  norms_ = column_sums(x, x).sqrt_();
  basis_.push_back(normalised(x, norms_));
}

at::Tensor LanczosProcess::normalised(const at::Tensor& vector, const at::Tensor& norm) const {
  return at::where(norm > 0, vector / norm, 0.0);
}

void LanczosProcess::step() {
  at::Tensor next = matrix_.times(basis_.back());
  if (size() > 0) next.addcmul_(betas_.back(), basis_[basis_.size() - 2], -1);
  alphas_.push_back(column_sums(next, basis_.back()));
  next.addcmul_(alphas_.back(), basis_.back(), -1);
  at::Tensor beta = column_sums(next, next).sqrt_();
  // A residual as small as rounding errors is zero: the space is invariant, and the column is done.
  const double rounding = next.scalar_type() == at::kDouble ? 1e-14 : 1e-6;
  beta = at::where(beta > rounding * (alphas_.front().abs() + alphas_.back().abs() + 1e-300), beta, 0.0);
  betas_.push_back(beta);
  basis_.push_back(normalised(next, beta));
}

at::Tensor LanczosProcess::tridiagonal() const {
  const auto columns = [](const std::vector<at::Tensor>& entries) {
    return at::stack(entries, -1).squeeze(2).to(at::kDouble);  // [B, H, C, m]
  };
  const at::Tensor off_diagonal = columns(betas_).narrow(-1, 0, size() - 1);
  return columns(alphas_).diag_embed() + off_diagonal.diag_embed(1) + off_diagonal.diag_embed(-1);
}

at::Tensor lanczos_exponential(const GeneratorMatrix& matrix, const std::vector<double>& lambda, double tolerance,
                               int64_t max_steps, const at::Tensor& x) {
  constexpr int64_t kStepsBetweenChecks = 4;
  LanczosProcess process(matrix, x);
  const at::Tensor times = at::tensor(lambda, at::kDouble).to(x.device()).view({1, -1, 1, 1});
  at::Tensor weights;  // [B, H, C, m]: exp(−λT)x in the basis, for a column of norm 1
  for (bool converged = x.numel() == 0; !converged;) {
    for (int64_t s = 0; s < kStepsBetweenChecks && process.size() < max_steps; ++s) process.step();
    const OneLibraryThread alone;
    const auto [values, vectors] = at::linalg_eigh(process.tridiagonal());
    const at::Tensor lowest = values.amin(-1, true), shifted = times * (values - lowest);
    const at::Tensor start = vectors.select(-2, 0), end = vectors.select(-2, process.size() - 1);
    weights = (vectors * (start * (-times * values).exp()).unsqueeze(-2)).sum(-1);
    // Saad (1992): the error is about λβ_m |e_mᵀ φ₁(−λT_m) e₁|, here for T less its lowest eigenvalue, so that the norm
    // of the exponential is 1.
    const at::Tensor phi = at::where(shifted > 1e-12, -at::expm1(-shifted) / shifted, 1.0);
    const at::Tensor reach = (end * start * phi).sum(-1).abs();
    const at::Tensor error = times.squeeze(-1) * process.residual().squeeze(2).to(at::kDouble) * reach;
    converged = process.size() >= max_steps || error.max().item<double>() <= tolerance;
  }
  at::Tensor y = at::zeros_like(x);
  for (int64_t j = 0; j < process.size(); ++j) {
    const at::Tensor weight = weights.select(-1, j).unsqueeze(2).to(x.scalar_type());
    y.addcmul_(process.basis()[j], weight * process.norms());
  }
  return y;
}

}  // namespace topomask

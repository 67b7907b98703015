#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "masks/diffusion/generator.h"

namespace topomask {

/// The Lanczos process for every column of x [B, H, N, C] separately: T restricted to the space of x, Tx, …, T^{m−1}x
/// is a tridiagonal m×m matrix in an orthonormal basis. Vectors are not orthogonalised again: for functions of T that
/// delays convergence a little and changes nothing else.
class LanczosProcess {
 public:
  LanczosProcess(const GeneratorMatrix& matrix, const at::Tensor& x);

  void step();  ///< m → m + 1, one product with T
  int64_t size() const { return static_cast<int64_t>(alphas_.size()); }

  const at::Tensor& norms() const { return norms_; }               ///< ‖x‖, [B, H, 1, C]
  const std::vector<at::Tensor>& basis() const { return basis_; }  ///< m + 1 vectors of the shape of x
  const at::Tensor& residual() const { return betas_.back(); }     ///< β_m: what leaves the space; [B, H, 1, C]
  at::Tensor tridiagonal() const;                                  ///< [B, H, C, m, m], float64

 private:
  at::Tensor normalised(const at::Tensor& vector, const at::Tensor& norm) const;

  const GeneratorMatrix& matrix_;
  at::Tensor norms_;
  std::vector<at::Tensor> basis_, alphas_, betas_;
};

/// exp(−λ_h T)x for each head h, each column to the tolerance relative to ‖exp(−λT)‖·‖x‖, in at most `max_steps` steps.
at::Tensor lanczos_exponential(const GeneratorMatrix& matrix, const std::vector<double>& lambda, double tolerance,
                               int64_t max_steps, const at::Tensor& x);

}  // namespace topomask

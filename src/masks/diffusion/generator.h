#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "core/internal_api.h"
#include "topomask/diffusion.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// T = edges + diag(diagonal), symmetric.
struct GeneratorMatrix {
  SparseMatrix edges;   ///< on the pattern of the graph, [E], the dtype of its weights
  at::Tensor diagonal;  ///< [N], the same

  int64_t nodes() const { return diagonal.size(0); }
  at::Tensor times(const at::Tensor& x) const;  ///< T·x for x [..., N, C]
};

/// Refuses, with an error that begins with `op`, a directed graph and a normalised Laplacian of negative weights.
GeneratorMatrix generator_matrix(const char* op, const Graph& graph, Generator generator);
/// The same for weights [entries] on the pattern of an undirected graph, differentiable in them.
GeneratorMatrix generator_matrix(const char* op, const PatternPtr& pattern, const at::Tensor& weights,
                                 Generator generator);

/// Bounds of the eigenvalues of T: lower ≤ λ_min ≤ lowest, λ_max ≤ upper. ‖exp(−λT)‖ is at least exp(−λ·lowest).
struct Spectrum {
  double lower = 0;
  double upper = 0;
  double lowest = 0;
};
Spectrum spectrum_bounds(const GeneratorMatrix& matrix, Generator generator);

/// lambda must be Float or Double, [] or [H], on the CPU.
void check_lambda(const char* op, const at::Tensor& lambda);
/// Its values, one per head, which must be finite and ≥ 0: checked at each use, since λ may be learned.
std::vector<double> lambda_values(const char* op, const at::Tensor& lambda);

}  // namespace topomask

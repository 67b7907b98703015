#include "masks/diffusion/generator.h"

#include <ATen/ATen.h>

#include "core/checks.h"

namespace topomask {

at::Tensor GeneratorMatrix::times(const at::Tensor& x) const {
  return matmul(edges, x).addcmul_(x, diagonal.unsqueeze(1));
}

GeneratorMatrix generator_matrix(const char* op, const PatternPtr& pattern, const at::Tensor& weights,
                                 Generator generator) {
  const at::Tensor adjacency = weights.to(at::kDouble);
  const at::Tensor ones = at::ones({pattern->rows(), 1}, adjacency.options().requires_grad(false));
  const at::Tensor degrees = matmul(SparseMatrix{pattern, adjacency}, ones).squeeze(1);
  at::Tensor values = -adjacency, diagonal = at::zeros_like(degrees);
  if (generator == Generator::laplacian) diagonal = degrees;
  if (generator == Generator::normalised_laplacian) {
    TORCH_CHECK(adjacency.numel() == 0 || adjacency.min().item<double>() >= 0, op,
                ": graph must have weights >= 0 for the normalised Laplacian, got ", adjacency.min().item<double>());
    const at::Tensor connected = degrees > 0;
    const at::Tensor inverse_root = at::where(connected, degrees, 1.0).rsqrt() * connected;
    const at::Tensor rows = at::repeat_interleave(pattern->offsets().diff());
    values =
        values * inverse_root.index_select(0, rows) * inverse_root.index_select(0, pattern->columns().to(at::kLong));
    diagonal = connected.to(at::kDouble);
  }
  return {{pattern, values.to(weights.scalar_type())}, diagonal.to(weights.scalar_type())};
}

GeneratorMatrix generator_matrix(const char* op, const Graph& graph, Generator generator) {
  TORCH_CHECK(!graph.directed(), op, ": graph must be undirected, got a directed one");
  return generator_matrix(op, graph.pattern(), graph.weights().detach(), generator);
}

void check_lambda(const char* op, const at::Tensor& lambda) {
  TORCH_CHECK(lambda.defined() && is_real(lambda.scalar_type()) && (lambda.is_cpu() || lambda.is_cuda()) &&
                  lambda.dim() <= 1 && lambda.numel() >= 1,
              op, ": lambda must be Float or Double, [] or [H], on cpu or cuda, got ", describe(lambda));
  if (lambda.is_cpu()) lambda_values(op, lambda);
}

std::vector<double> lambda_values(const char* op, const at::Tensor& lambda) {
  const at::Tensor flat = lambda.detach().reshape(-1).to(at::kCPU, at::kDouble).contiguous();
  const std::vector<double> values(flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel());
  for (double value : values) {
    TORCH_CHECK(std::isfinite(value) && value >= 0, op, ": lambda must be finite and >= 0, got ", value);
  }
  return values;
}

}  // namespace topomask

#include <ATen/ATen.h>

#include "attention/ops.h"
#include "attention/routes.h"
#include "ops/sparse_attention/op.h"

namespace topomask {
namespace {

/// With tiles where the kernels ask for them.
std::vector<at::Tensor> pattern_of(const SparseMatrix& matrix, const at::Tensor& q, const at::Tensor& v) {
  const SparsePattern& pattern = *matrix.pattern;
  const ops::sparse_attention::Shape shape{q.scalar_type(), q.size(-1), v.size(-1), pattern.entries(),
                                           q.device().type()};
  return pattern.tensors(ops::sparse_attention::uses_tiles(shape) && pattern.device() == q.device());
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> sparse_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                    const SparseMatrix& matrix, double eps, bool nodes_first) {
  return ops::sparse_attention::kernel_attention(q, k, v, matrix.values_by_head(), pattern_of(matrix, q, v), eps,
                                                 nodes_first);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> sparse_softmax_attention(const at::Tensor& q, const at::Tensor& k,
                                                                        const at::Tensor& v, const SparseMatrix& matrix,
                                                                        double scale, double eps) {
  return ops::sparse_attention::softmax_attention(q, k, v, matrix.values_by_head(), pattern_of(matrix, q, v), scale,
                                                  eps);
}

at::Tensor sparse_route(const Problem& problem) {
  const auto matrix = problem.mask->sparse();
  TORCH_CHECK(matrix, "attention: route must be one the mask offers, got sparse for mask ", problem.mask->name());
  return std::get<0>(sparse_attention(problem.q, problem.k, problem.v, *matrix, problem.eps, problem.nodes_first));
}

}  // namespace topomask

#include <ATen/ATen.h>

#include "attention/routes.h"
#include "core/checks.h"

namespace topomask {

at::Tensor dense_route(const Problem& problem) {
  const at::ScalarType type = accumulation_type(problem.q.scalar_type());
  const at::Tensor q = problem.q.to(type), k = problem.k.to(type), v = problem.v.to(type);
  const at::Tensor weights = at::matmul(q, k.mT()) * problem.mask->dense().to(q.device(), type);
  return normalise(at::matmul(weights, v), weights.sum(-1), problem.eps).to(problem.v.scalar_type());
}

}  // namespace topomask

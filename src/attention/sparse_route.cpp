#include <ATen/ATen.h>

#include "attention/ops.h"
#include "attention/routes.h"

namespace topomask {

at::Tensor sparse_route(const Problem& problem) {
  const auto matrix = problem.mask->sparse();
  TORCH_CHECK(matrix, "attention: route must be one the mask offers, got sparse for mask ", problem.mask->name());
  return std::get<0>(sparse_attention(problem.q, problem.k, problem.v, *matrix, problem.eps));
}

}  // namespace topomask

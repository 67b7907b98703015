#include <ATen/ATen.h>

#include "attention/routes.h"
#include "attention/row_formulas.h"
#include "core/checks.h"

namespace topomask {

at::Tensor dense_route(const Problem& problem) {
  const at::ScalarType type = accumulation_type(problem.q.scalar_type());
  return attend_rows(problem.q, problem.k, problem.v, problem.mask->dense().to(problem.q.device(), type),
                     {.eps = problem.eps});
}

}  // namespace topomask

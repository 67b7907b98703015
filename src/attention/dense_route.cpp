#include <ATen/ATen.h>

#include "attention/routes.h"
#include "core/checks.h"
#include "core/ordered_sums.h"
#include "ops/normalise.h"
#include "ops/normalised_weights/op.h"

namespace topomask {

namespace {

/// On a GPU the tensor cores take rows of multiples of 16 bytes, and bfloat16 without a conversion. The weights are
/// then rounded to bfloat16 between the two products, as fused softmax attention does.
at::Tensor on_gpu(const Problem& problem) {
  const at::ScalarType given = problem.q.scalar_type(), wide = accumulation_type(given);
  const at::ScalarType type = given == at::kBFloat16 ? given : wide;
  const int64_t padding = (8 - problem.q.size(-2) % 8) % 8;
  const auto padded = [&](const at::Tensor& x, at::IntArrayRef by) {
    return padding > 0 ? at::constant_pad_nd(x, by) : x;
  };
  const at::Tensor k = padded(problem.k.to(type), {0, 0, 0, padding}),
                   v = padded(problem.v.to(type), {0, 0, 0, padding});
  at::Tensor mask = padded(problem.mask->dense().to(problem.q.device(), wide), {0, padding});
  if (mask.dim() == 2) mask = mask.unsqueeze(0);
  const at::Tensor weights =
      ops::normalised_weights::weights(at::matmul(problem.q.to(type), k.mT()), mask, problem.eps);
  return at::matmul(weights, v).to(problem.v.scalar_type());
}

}  // namespace

at::Tensor dense_route(const Problem& problem) {
  if (problem.q.is_cuda()) return on_gpu(problem);
  const at::ScalarType type = accumulation_type(problem.q.scalar_type());
  const at::Tensor q = problem.q.to(type), k = problem.k.to(type), v = problem.v.to(type);
  const at::Tensor weights = ordered_mul(ordered_matmul(q, k.mT()), problem.mask->dense().to(type));
  return ops::normalise(ordered_matmul(weights, v), weights.sum(-1), problem.eps).to(problem.v.scalar_type());
}

}  // namespace topomask

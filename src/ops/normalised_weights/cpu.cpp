#include <ATen/ATen.h>
#include <torch/library.h>

#include "ops/normalise.h"
#include "ops/normalised_weights/op.h"

namespace topomask::ops::normalised_weights {

using at::Tensor;

Two forward_plain(const Tensor& scores, const Tensor& mask, double eps) {
  const Tensor weights = scores * mask, denominator = weights.sum(-1);
  return {normalise(weights, denominator, eps).to(scores.scalar_type()), denominator};
}

Two backward_plain(const Tensor& grad, const Tensor& scores, const Tensor& mask, const Tensor& denominator,
                   double eps) {
  const Tensor inverse = normalise(at::ones_like(denominator).unsqueeze(-1), denominator, eps);
  // A clamped D does not move with the weights.
  const Tensor moving = (denominator.abs() >= eps).unsqueeze(-1);
  const Tensor mean = (grad * (scores * mask)).sum(-1, true).mul_(inverse).mul_(moving);
  const Tensor grad_weights = (grad - mean).mul_(inverse);
  const Tensor grad_mask = (grad_weights * scores).sum(0);
  return {(grad_weights * mask).to(scores.scalar_type()), mask.size(0) == 1 ? grad_mask.sum(0, true) : grad_mask};
}

namespace {

Two forward_cpu(const Tensor& scores, const Tensor& mask, double eps) {
  check(scores, mask, eps);
  return forward_plain(scores, mask, eps);
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CPU, m) {
  m.impl("normalised_weights", forward_cpu);
  m.impl("normalised_weights_backward", backward_plain);
}

}  // namespace topomask::ops::normalised_weights

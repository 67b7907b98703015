#include "ops/normalised_weights/op.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include "core/checks.h"
#include "ops/call.h"

namespace topomask::ops::normalised_weights {

using at::Tensor;

void check(const Tensor& scores, const Tensor& mask, double eps) {
  TORCH_CHECK(scores.dim() == 4 && scores.is_floating_point(),
              "normalised_weights: scores must be floating [B, H, N, P], got ", describe(scores));
  TORCH_CHECK(mask.dim() == 3 && (mask.size(0) == 1 || mask.size(0) == scores.size(1)) &&
                  mask.size(1) == scores.size(2) && mask.size(2) == scores.size(3) &&
                  mask.scalar_type() == accumulation_type(scores.scalar_type()) && mask.device() == scores.device(),
              "normalised_weights: mask must be ", accumulation_type(scores.scalar_type()),
              " [1 or H, N, P] for scores ", describe(scores), ", got ", describe(mask));
  TORCH_CHECK(eps > 0, "normalised_weights: eps must be > 0, got ", eps);
  check_finite("normalised_weights", "eps", eps);
}

Two forward(const Tensor& scores, const Tensor& mask, double eps) {
  return call<"normalised_weights", Two(const Tensor&, const Tensor&, double)>(scores, mask, eps);
}

Two backward(const Tensor& grad, const Tensor& scores, const Tensor& mask, const Tensor& denominator, double eps) {
  using Signature = Two(const Tensor&, const Tensor&, const Tensor&, const Tensor&, double);
  return call<"normalised_weights_backward", Signature>(grad, scores, mask, denominator, eps);
}

Tensor weights(const Tensor& scores, const Tensor& mask, double eps) {
  return std::get<0>(forward(scores, mask, eps));
}

namespace {

Two forward_meta(const Tensor& scores, const Tensor& mask, double) {
  return {at::empty_like(scores, at::MemoryFormat::Contiguous),
          at::empty_symint({scores.sym_size(0), scores.sym_size(1), scores.sym_size(2)}, mask.options())};
}

Two backward_meta(const Tensor&, const Tensor& scores, const Tensor& mask, const Tensor&, double) {
  return {at::empty_like(scores, at::MemoryFormat::Contiguous), at::empty_like(mask, at::MemoryFormat::Contiguous)};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.def("normalised_weights(Tensor scores, Tensor mask, float eps) -> (Tensor, Tensor)");
  m.def(
      "normalised_weights_backward(Tensor grad, Tensor scores, Tensor mask, Tensor denominator, float eps) -> "
      "(Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(topomask, Meta, m) {
  m.impl("normalised_weights", forward_meta);
  m.impl("normalised_weights_backward", backward_meta);
}

}  // namespace topomask::ops::normalised_weights

#include "masks/encodings/factor_mask.h"

#include <ATen/ATen.h>

#include "core/ordered_sums.h"
#include "core/plain_ops.h"
#include "core/pull_back.h"

namespace topomask {
namespace {

// Multiply-adds of dense products relative to the planner's unit, a pass over memory: thin ones, and those that make a
// matrix.
constexpr double kThin = 0.3;
constexpr double kDense = 0.1;

at::Tensor product(const at::Tensor& left, const at::Tensor& right, const at::Tensor& x) {
  const PlainOps plain;
  return ordered_matmul(left, ordered_matmul(right.mT(), x));
}

/// sideᵀ·x, summed in float64: the gradients of all nodes share its error, and those of a parameter that many nodes
/// have add it up. Torch's product of float32 drifts by a part of N·2⁻²⁴ where the terms are alike.
at::Tensor node_sums(const at::Tensor& side, const at::Tensor& x) {
  if (!x.is_cpu()) return ordered_matmul(side.mT(), x);
  return ordered_matmul(side.mT().to(at::kDouble), x.to(at::kDouble)).to(x.scalar_type());
}

/// ∂⟨grad, L·y⟩/∂L for y [B, H, r, C]: [H, N, r].
at::Tensor side_gradient(const at::Tensor& grad, const at::Tensor& y) {
  return outer_sums(grad, y);
}

}  // namespace

FactorMask::FactorMask(std::string name, int64_t nodes, int64_t width, int64_t heads,
                       std::vector<at::Tensor> parameters)
    : name_(std::move(name)), nodes_(nodes), width_(width), heads_(heads), parameters_(std::move(parameters)) {}

std::vector<at::Tensor> FactorMask::computed(const std::vector<at::Tensor>& parameters) const {
  const NoAutocast no_autocast;
  const Sides s = sides(parameters);
  const auto shaped = [this](const at::Tensor& side) {
    return side.defined() && heads_ == 1 ? side.reshape({nodes_, width_}) : side;
  };
  return {shaped(s.left), shaped(s.right)};
}

FactorMask::Sides FactorMask::current() const {
  const auto tensors = sides_.get(parameters_, [this](const auto& parameters) { return computed(parameters); });
  return {tensors[0], tensors[1].defined() ? tensors[1] : tensors[0]};
}

MaskCounts FactorMask::counts() const {
  const auto n = static_cast<double>(nodes_), width = static_cast<double>(width_);
  const double making = TensorCache::serves(parameters_) ? 0 : sides_work();
  return {.operator_work = kThin * 2 * n * width + n,
          .factor_entries = 2 * n * width,
          .dense_factors = true,
          .values_work = making,
          .dense_work = n * n * (1 + kDense * width) + making};
}

std::optional<Factors> FactorMask::factors() const {
  const Sides s = current();
  return Factors{{{}, s.left}, {{}, s.right}};
}

at::Tensor FactorMask::dense() const {
  const NoAutocast no_autocast;
  const Sides s = current();
  return ordered_matmul(s.left, s.right.mT());
}

at::Tensor FactorMask::apply(const at::Tensor& x) const {
  const Sides s = current();
  return product(s.left, s.right, x);
}

at::Tensor FactorMask::apply_transposed(const at::Tensor& x) const {
  const Sides s = current();
  return product(s.right, s.left, x);
}

std::vector<at::Tensor> FactorMask::parameter_gradients(const at::Tensor& x, const at::Tensor& grad) const {
  const NoAutocast no_autocast;
  const Sides s = current();
  at::Tensor dleft = side_gradient(grad, node_sums(s.right, x));
  const at::Tensor dright = side_gradient(x, node_sums(s.left, grad));
  if (s.right.is_same(s.left)) dleft = dleft + dright;
  return pull_back(parameters_, {dleft, dright}, [this](const auto& parameters) { return computed(parameters); });
}

}  // namespace topomask

#include "masks/toeplitz/offsets.h"

#include <ATen/ATen.h>

#include <limits>

#include "ops/fused_attention/constant_codes.h"

namespace topomask {
namespace {

/// The offset along one axis, −(n−1) … n−1, shaped to broadcast over all of them.
at::Tensor axis_offsets(const std::vector<int64_t>& shape, size_t axis) {
  const int64_t length = shape[axis];
  std::vector<int64_t> broadcast(shape.size(), 1);
  broadcast[axis] = length;
  return (at::arange(length, at::kLong) - length / 2).view(broadcast);
}

/// Where i − j leads to the past or the present.
at::Tensor allowed_offsets(const std::vector<int64_t>& shape, Causality causality) {
  at::Tensor allowed = axis_offsets(shape, 0) >= 0;
  if (causality == Causality::row_major) {
    // The first coordinate that differs decides; none does: j = i.
    allowed = at::ones(std::vector<int64_t>(shape.size(), 1), at::kBool);
    for (size_t axis = shape.size(); axis-- > 0;) {
      const at::Tensor offset = axis_offsets(shape, axis);
      allowed = (offset > 0).logical_or((offset == 0).logical_and(allowed));
    }
  }
  return allowed.expand(shape).contiguous();
}

}  // namespace

std::vector<int64_t> OffsetRule::parameter_shape_of(const std::vector<int64_t>& dims, bool by_distance) {
  std::vector<int64_t> shape;
  int64_t distances = 1;
  bool empty = false;
  for (int64_t n : dims) {
    empty |= n == 0;
    distances += n - 1;
    shape.push_back(std::max<int64_t>(0, 2 * n - 1));
  }
  return by_distance ? std::vector<int64_t>{empty ? 0 : distances} : shape;
}

OffsetRule::OffsetRule(std::vector<int64_t> dims, bool by_distance, const ToeplitzOptions& options)
    : dims_(std::move(dims)),
      by_distance_(by_distance),
      options_(options),
      offset_shape_(parameter_shape_of(dims_, false)),
      parameter_shape_(parameter_shape_of(dims_, by_distance)) {
  for (int64_t n : dims_) nodes_ *= n;
  for (int64_t n : offset_shape_) offset_count_ *= static_cast<double>(n);
  if (by_distance_) {
    at::Tensor distance = at::zeros(offset_shape_, at::kLong);
    for (size_t axis = 0; axis < dims_.size(); ++axis) distance.add_(axis_offsets(offset_shape_, axis).abs());
    distance_ = distance.view({1, -1});
  }
  if (options_.causality != Causality::none) allowed_ = allowed_offsets(offset_shape_, options_.causality);
}

at::Tensor OffsetRule::exponential(const at::Tensor& parameter) const {
  if (!allowed_.defined() || by_distance_) return parameter.exp();
  const at::Tensor forbidden = allowed_.logical_not().to(parameter.device());
  return parameter.masked_fill(forbidden, -std::numeric_limits<double>::infinity()).exp();
}

at::Tensor OffsetRule::offsets(const at::Tensor& parameter) const {
  at::Tensor values = options_.logarithmic ? exponential(parameter) : parameter;
  const int64_t heads = values.dim() > static_cast<int64_t>(parameter_shape_.size()) ? values.size(0) : 1;
  if (by_distance_) values = values.reshape({heads, -1}).gather(1, distance_.to(values.device()).expand({heads, -1}));
  std::vector<int64_t> shape{heads};
  shape.insert(shape.end(), offset_shape_.begin(), offset_shape_.end());
  values = values.reshape(shape);
  return allowed_.defined() ? values.masked_fill(allowed_.logical_not().to(values.device()), 0) : values;
}

at::Tensor OffsetRule::codes(at::Device device) const {
  const std::lock_guard lock(codes_mutex_);
  for (const at::Tensor& known : codes_) {
    if (known.device() == device) return known;
  }
  const c10::InferenceMode ordinary(false);  // what is kept may later be saved for a backward pass
  at::Tensor codes = at::zeros({1}, at::kInt);
  for (size_t axis = 0; axis < dims_.size(); ++axis) {
    const int64_t step = offset_shape_[axis];
    codes = (codes.unsqueeze(1) * step + at::arange(dims_[axis], at::kInt)).reshape({-1});
  }
  codes_.push_back(codes.to(device));
  ops::fused_attention::ConstantCodes::add(codes_.back());
  return codes_.back();
}

at::Tensor OffsetRule::gradient(const at::Tensor& parameter, const at::Tensor& grad_offsets) const {
  at::Tensor grad = allowed_.defined() ? grad_offsets * allowed_.to(grad_offsets.device()) : grad_offsets;
  if (by_distance_) {
    const int64_t heads = grad.size(0);
    grad = at::zeros({heads, parameter_shape_[0]}, grad.options())
               .scatter_add_(1, distance_.to(grad.device()).expand({heads, -1}), grad.reshape({heads, -1}));
  }
  grad = grad.reshape(parameter.sizes());
  return options_.logarithmic ? grad * exponential(parameter) : grad;
}

}  // namespace topomask

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <mutex>
#include <vector>

#include "topomask/toeplitz.h"

namespace topomask {

/// How the offsets g [H, 2n₁−1, …, 2n_d−1] of a Toeplitz mask come from its parameter: exponentials, a table over
/// distances, zeros in the future.
class OffsetRule {
 public:
  /// The shape of the parameter for one head: that of the offsets, or [K]. Nothing is allocated.
  static std::vector<int64_t> parameter_shape_of(const std::vector<int64_t>& dims, bool by_distance);

  /// `by_distance`: the parameter is f [H, K]; otherwise the offsets themselves.
  OffsetRule(std::vector<int64_t> dims, bool by_distance, const ToeplitzOptions& options);

  const std::vector<int64_t>& dims() const { return dims_; }
  int64_t nodes() const { return nodes_; }
  const ToeplitzOptions& options() const { return options_; }
  bool by_distance() const { return by_distance_; }
  const std::vector<int64_t>& parameter_shape() const { return parameter_shape_; }

  at::Tensor offsets(const at::Tensor& parameter) const;  ///< g, differentiable
  /// Row-major numbers of the nodes' coordinates among the offsets: i − j is offset codes_i − codes_j + code_shift().
  /// Made once for each device; where there are fewer than 2³¹ offsets.
  bool has_codes() const { return nodes_ > 0 && offset_count_ <= std::numeric_limits<int32_t>::max(); }
  at::Tensor codes(at::Device device) const;
  int64_t code_shift() const { return (static_cast<int64_t>(offset_count_) - 1) / 2; }
  /// ∂/∂parameter from ∂/∂g.
  at::Tensor gradient(const at::Tensor& parameter, const at::Tensor& grad_offsets) const;

 private:
  /// exp(parameter), 0 where an offset is not allowed, however large its logarithm is.
  at::Tensor exponential(const at::Tensor& parameter) const;

  std::vector<int64_t> dims_;
  int64_t nodes_ = 1;
  bool by_distance_;
  ToeplitzOptions options_;
  std::vector<int64_t> offset_shape_;     // 2n_s − 1
  std::vector<int64_t> parameter_shape_;  // the same, or K
  double offset_count_ = 1;               // of all axes together
  mutable std::mutex codes_mutex_;
  mutable std::vector<at::Tensor> codes_;  // int32 [nodes], one for each device
  at::Tensor distance_;                    // int64 [1, offsets]: which f an offset takes
  at::Tensor allowed_;                     // bool, offset_shape_: false in the future
};

}  // namespace topomask

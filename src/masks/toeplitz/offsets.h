#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "topomask/toeplitz.h"

namespace topomask {

/// How the offsets g [H, 2n₁−1, …, 2n_d−1] of a Toeplitz mask come from its parameter: exponentials, a table over
/// distances, zeros in the future.
class OffsetRule {
 public:
  /// Of the parameter, for one head: the offsets' shape, or [K]. Nothing is allocated.
  static std::vector<int64_t> parameter_shape_of(const std::vector<int64_t>& dims, bool by_distance);

  /// `by_distance`: the parameter is f [H, K]; otherwise the offsets themselves.
  OffsetRule(std::vector<int64_t> dims, bool by_distance, const ToeplitzOptions& options);

  const std::vector<int64_t>& dims() const { return dims_; }
  int64_t nodes() const { return nodes_; }
  const ToeplitzOptions& options() const { return options_; }
  bool by_distance() const { return by_distance_; }
  const std::vector<int64_t>& parameter_shape() const { return parameter_shape_; }

  at::Tensor offsets(const at::Tensor& parameter) const;  ///< g, differentiable
  /// ∂/∂parameter from ∂/∂g.
  at::Tensor gradient(const at::Tensor& parameter, const at::Tensor& grad_offsets) const;

 private:
  std::vector<int64_t> dims_;
  int64_t nodes_ = 1;
  bool by_distance_;
  ToeplitzOptions options_;
  std::vector<int64_t> offset_shape_;     // 2n_s − 1
  std::vector<int64_t> parameter_shape_;  // the same, or K
  at::Tensor distance_;                   // int64 [1, offsets]: which f an offset takes
  at::Tensor allowed_;                    // bool, offset_shape_: false in the future
};

}  // namespace topomask

#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace topomask::torture {

/// Compares results with their references and keeps what was worst.
class Judge {
 public:
  /// |actual − expected| ≤ tolerance·(scale + |expected|), elementwise; what the dtype cannot hold is not judged, nor
  /// what float32 cannot hold where float64 results were float32 on the way (`through_float`).
  void compare(const std::string& name, const at::Tensor& actual, const at::Tensor& expected, const at::Tensor& scale,
               double tolerance, bool through_float = false);
  /// |actual| ≤ bound where `where` holds: all that can be said of an ill-conditioned row.
  void bound(const std::string& name, const at::Tensor& actual, const at::Tensor& bound, const at::Tensor& where);
  void require(bool condition, const std::string& text);
  /// Notes that results are beyond the range of their dtype and were not compared.
  void leave_out() { left_out_ = true; }

  bool left_out() const { return left_out_; }

  bool failed() const { return !failure_.empty(); }
  const std::string& failure() const { return failure_; }  ///< the first one; empty where there is none
  double worst() const { return worst_; }                  ///< the largest error over what is allowed
  const std::string& worst_name() const { return worst_name_; }

 private:
  std::string failure_, worst_name_;
  double worst_ = 0;
  bool left_out_ = false;
};

/// The largest float16, the least one that is normal, and the rounding error of those that are not.
inline constexpr double kLargestHalf = 65504, kLeastNormalHalf = 0x1p-14, kSubnormalHalfError = 0x1p-25;

/// Whether float16 holds all of these values of a reference: what has to pass through a value beyond it becomes
/// infinite, or not a number, on the way, whatever the result would be.
bool fit_half(const std::vector<at::Tensor>& values);

}  // namespace topomask::torture

#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace topomask::torture {

/// Compares results with their references and keeps what was worst.
class Judge {
 public:
  /// |actual − expected| ≤ tolerance·(scale + |expected|), elementwise; what the dtype cannot hold is not judged.
  void compare(const std::string& name, const at::Tensor& actual, const at::Tensor& expected, const at::Tensor& scale,
               double tolerance);
  /// |actual| ≤ bound where `where` holds: all that can be said of an ill-conditioned row.
  void bound(const std::string& name, const at::Tensor& actual, const at::Tensor& bound, const at::Tensor& where);
  void require(bool condition, const std::string& text);

  bool failed() const { return !failure_.empty(); }
  const std::string& failure() const { return failure_; }  ///< the first one; empty where there is none
  double worst() const { return worst_; }                  ///< the largest error over what is allowed
  const std::string& worst_name() const { return worst_name_; }

 private:
  std::string failure_, worst_name_;
  double worst_ = 0;
};

}  // namespace topomask::torture

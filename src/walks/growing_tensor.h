#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "core/recycled.h"

namespace topomask {

/// A vector that is appended to, of a length that is not known before.
class GrowingTensor {
 public:
  explicit GrowingTensor(at::ScalarType dtype) : tensor_(at::empty({0}, dtype)) {}

  /// Room for `expected` in all; appending more than that copies what is there.
  void reserve(int64_t expected) {
    const at::Tensor larger = recycled_empty({expected}, tensor_.options());
    larger.narrow(0, 0, used_).copy_(tensor_.narrow(0, 0, used_));
    tensor_ = larger;
  }

  void extend(int64_t more) {
    if (used_ + more > tensor_.size(0)) reserve(used_ + more + used_ / 4);
    used_ += more;
  }

  template <class T>
  T* data() {
    return tensor_.mutable_data_ptr<T>();
  }

  /// What was reserved after the end was never touched, so it costs an address only; far too much is given back.
  at::Tensor finish() const {
    const at::Tensor result = tensor_.narrow(0, 0, used_);
    return tensor_.size(0) - used_ > used_ / 8 + 4096 ? result.clone() : result;
  }

 private:
  at::Tensor tensor_;
  int64_t used_ = 0;
};

}  // namespace topomask

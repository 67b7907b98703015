#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace topomask {

/// Any leading dimensions as [B, H, N, C] and back. With one head every leading dimension is batch; with H heads
/// dimension −3 must be H. `op` and `argument` name the culprit in errors.
class LeadingDims {
 public:
  LeadingDims(const char* op, const char* argument, const at::Tensor& x, int64_t heads, int64_t nodes);

  int64_t batch() const { return batch_; }
  int64_t heads() const { return heads_; }
  at::Tensor fold(const at::Tensor& x) const;    ///< [..., N, C] → [B, H, N, C]
  at::Tensor unfold(const at::Tensor& x) const;  ///< [B, H, N, C] → [..., N, C]

 private:
  std::vector<int64_t> leading_;
  int64_t batch_ = 1;
  int64_t heads_ = 1;
};

}  // namespace topomask

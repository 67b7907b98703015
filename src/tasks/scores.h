#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "topomask/tasks/task.h"

namespace topomask {

/// Collects loss and guesses over the batches of a split, on their device.
class Scores {
 public:
  Scores(int64_t classes, at::Device device);

  void add(const at::Tensor& logits, const at::Tensor& labels);  ///< [B, classes], int64 [B]
  Evaluation result() const;                                     ///< zeros where nothing was added

 private:
  int64_t classes_;
  at::Tensor loss_;
  std::vector<at::Tensor> labels_, guesses_;
};

}  // namespace topomask

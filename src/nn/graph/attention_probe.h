#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "core/internal_api.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// While one lives, the attention layers that its thread runs record what a node attends to, whatever their mask and
/// route: their output is linear in the values, so that its derivative is the row of weights.
class AttentionProbe {
 public:
  explicit AttentionProbe(int64_t node);
  ~AttentionProbe();
  AttentionProbe(const AttentionProbe&) = delete;
  AttentionProbe& operator=(const AttentionProbe&) = delete;

  /// attend(v), v [H, N, d] → [H, N, d], linear in v; recorded while a probe lives.
  static at::Tensor watched(const at::Tensor& v, const std::function<at::Tensor(const at::Tensor&)>& attend);

  /// [layers, heads, N]; NaN for heads that a layer does not have; undefined where no layer was recorded.
  at::Tensor rows() const;

 private:
  int64_t node_;
  std::vector<at::Tensor> rows_;
  AttentionProbe* outer_;
};

}  // namespace topomask

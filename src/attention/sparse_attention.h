#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "sparse/op_arguments.h"

// CPU attention over a sparse mask, on checked tensors in the kernels' layout (see to_kernel_layout): q, k [B, H, N,
// m], v [B, H, N, d], values [1 or H, entries] contiguous. No dispatcher, no gradients: for the operators'
// implementations.

namespace topomask {

/// Kernel attention, or softmax with `scale` on the scores.
struct AttentionRule {
  bool softmax = false;
  double scale = 1;
  double eps = 0;
};

/// What the operators on every device ask of their arguments.
PatternTensors check_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& values,
                               const at::Tensor& offsets, const at::Tensor& columns, const at::Tensor& t_offsets,
                               const at::Tensor& t_columns, const at::Tensor& t_index, const AttentionRule& rule);

struct AttentionResult {
  at::Tensor out;
  at::Tensor row_max;  ///< undefined for kernel attention
  at::Tensor denominator;
  at::Tensor scores;  ///< e_ij [B, H, entries] where it is kept for the backward; otherwise undefined
};
AttentionResult sparse_attention_plain(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                       const at::Tensor& values, const PatternTensors& pattern,
                                       const AttentionRule& rule, bool keep_scores);

struct AttentionGradients {
  at::Tensor q, k, v;
  at::Tensor values;  ///< undefined where it is not wanted
};
AttentionGradients sparse_attention_backward_plain(const at::Tensor& grad_out, const at::Tensor& q, const at::Tensor& k,
                                                   const at::Tensor& v, const at::Tensor& values,
                                                   const PatternTensors& pattern, const AttentionResult& result,
                                                   const AttentionRule& rule, bool want_values);

}  // namespace topomask

#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "core/internal_api.h"
#include "ops/pattern.h"

// Attention over the entries of a mask M [N, N], values [1 or H, entries] over a pattern with its transpose
// (PatternTensors::kBoth, or kTiled where uses_tiles says so). q, k [B, H, N, m] and v [B, H, N, d] have one dtype and
// any strides; values have the accumulation type (float64 for float64, float32 for the others). Differentiable once,
// in q, k, v and values. The result does not depend on the number of threads.

namespace TOPOMASK_INTERNAL_API topomask {
namespace ops::sparse_attention {

/// What decides which kernel runs, and whether there is one.
struct Shape {
  at::ScalarType dtype;  ///< of q, k, v
  int64_t features;      ///< m
  int64_t value_dim;     ///< d
  int64_t entries;
  at::DeviceType device;
};
/// Whether the operators take it. The planner, the callers and the kernels all ask here.
bool supports(const Shape& shape);
/// Whether the kernels run on tensor cores when they are given the tiles of the pattern.
bool uses_tiles(const Shape& shape);

/// out_i = Σ_j A_ij v_j / D_i, A_ij = M_ij (q_i·k_j), over the entries of M. D_i is den_i = Σ_j A_ij kept at least eps
/// from zero, with its sign (0 counts as +). Returns out [B, H, N, d] in the dtype of v, and den [B, H, N] before the
/// clamp, in the accumulation type and without gradient. Cost: entries·(m + d) per slice. Where a gradient is wanted
/// and 2·entries ≤ N·(m + d), the CPU keeps a scalar per entry and slice for the backward pass, which saves it
/// entries·m. The operator `sparse_attention`. With `nodes_first` out is [B, N, H, d] in memory (ops/row_layout.h).
std::tuple<at::Tensor, at::Tensor> kernel_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                    const at::Tensor& values, at::TensorList pattern, double eps,
                                                    bool nodes_first = false);

/// The same with A_ij = M_ij exp(scale·q_i·k_j − max_i), max_i over the entries with M_ij ≠ 0 (0 in a row without any).
/// Returns out, max and den; the last two [B, H, N], in the accumulation type and without gradient. The operator
/// `sparse_softmax_attention`.
std::tuple<at::Tensor, at::Tensor, at::Tensor> softmax_attention(const at::Tensor& q, const at::Tensor& k,
                                                                 const at::Tensor& v, const at::Tensor& values,
                                                                 at::TensorList pattern, double scale, double eps);

// The two operators that do the work, with kernel attention and softmax as `softmax` = false and true. Where there is
// nothing to return (row_max of kernel attention, scores that are not kept) there is a tensor [0].
using Four = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

/// out, row_max, denominator, and the scores [B, H, entries] where they are kept for the backward pass: the operator
/// `sparse_attention_forward`.
Four forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& values,
             at::TensorList pattern, bool softmax, double scale, double eps, bool keep_scores, bool nodes_first);

/// Gradients of q, k, v, values: the operator `sparse_attention_backward`. `results` are those of forward.
Four backward(const at::Tensor& grad_out, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
              const at::Tensor& values, at::TensorList pattern, at::TensorList results, bool softmax, double scale,
              double eps, bool want_values);

/// Kernel attention, or softmax with `scale` on the scores.
struct Rule {
  bool softmax = false;
  double scale = 1;
  double eps = 0;
};

/// What the operators on every device ask of their arguments.
PatternTensors check(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& values,
                     at::TensorList pattern, const Rule& rule);
/// The four results of forward, as the backward operators take them.
void check_results(at::TensorList results);

}  // namespace ops::sparse_attention
}  // namespace topomask

#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "core/internal_api.h"
#include "ops/fused_attention/op.h"

// An additive mask of low rank as further columns of q and k: scale·<q', k'> = scale·<q, k> + <left, right>, so that
// the kernels without a mask compute it, as in FlashBias (Wu et al., NeurIPS 2025, arXiv:2505.12044). There the factors
// are rounded to the dtype of q. Here each is the sum of two numbers of that dtype, and three of the four products
// count:
//   q' = [q, l_high, l_low, l_high, 0]    k' = [k, r_high, r_high, r_low, 0]    l = left / scale, r = right
// In bfloat16 a product of them is exact to 2⁻¹⁶, where the kernels for factors in TF32 reach 2⁻¹¹.

namespace TOPOMASK_INTERNAL_API topomask {
namespace ops::fused_attention {

/// How many columns a factor of one column takes.
inline constexpr int64_t kColumnsOfFactor = 3;

/// Whether the operator takes that way for `mask` and `scale`, where the problem has takes_columns.
bool fits_columns(const MaskTiles& mask, const Options& options);

/// q and k with their columns, [B, H, N, a multiple of 8].
std::tuple<at::Tensor, at::Tensor> with_factor_columns(const at::Tensor& q, const at::Tensor& k, const MaskTiles& mask,
                                                       double scale);

/// The mask and the options under which attention over such rows is what was asked for.
MaskTiles mask_beside_columns();
Options options_beside_columns(const Options& options);

/// Gradients of q, k, left and right from those of the rows that with_factor_columns made; the last two [0] where they
/// are not wanted. Those of the factors are sums of numbers in the dtype of q.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> gradients_from_columns(const at::Tensor& grad_q,
                                                                                  const at::Tensor& grad_k,
                                                                                  const MaskTiles& mask,
                                                                                  int64_t features, double scale,
                                                                                  bool want_mask);

}  // namespace ops::fused_attention
}  // namespace topomask

#pragma once

#include "attention/row_formulas.h"
#include "topomask/mask.h"

namespace topomask {

/// Attention by whole rows of any mask, some rows at a time and without an N×N matrix: q, k [B, H, N, m], v [B, H, N,
/// d] with H the mask's. The backward pass makes each strip again. `room`: bytes that the sparse form of a mask may
/// take. Differentiable in q, k, v and the mask's parameters.
at::Tensor attend_in_strips(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const MaskPtr& mask,
                            const RowFormula& formula, double room);

}  // namespace topomask

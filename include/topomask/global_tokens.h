#pragma once

#include "topomask/export.h"
#include "topomask/mask.h"

namespace TOPOMASK_API topomask {

/// `tokens` global tokens (CLS) before the N nodes of another mask: their rows and columns are 1, the rest is the mask.
///
///     [ 1  1 ]
///     [ 1  M ]     size N + tokens ≤ 2³¹−1; parameters, heads and routes are those of M.
MaskPtr with_global_tokens(const MaskPtr& mask, int64_t tokens = 1);

}  // namespace topomask

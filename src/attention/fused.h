#pragma once

#include "ops/fused_attention/op.h"
#include "topomask/mask.h"

namespace topomask {

/// The tiles of a mask for the fused route, or an error where the mask or the kernels have none, or where the kernels
/// could not make a gradient of its parameters that autograd follows.
MaskTiles tiles_for(const char* op, const at::Tensor& q, int64_t value_dim, const Mask& mask, Weighting weighting);

}  // namespace topomask

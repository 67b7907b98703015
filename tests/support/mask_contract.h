#pragma once

#include "topomask/mask.h"

namespace topomask::testing {

/// Everything a mask promises, against the same matrix made the plain way: `reference` [N, N] or [H, N, N], double,
/// differentiable in mask->parameters() by ordinary tensor operations.
///
/// Products with M and Mᵀ, dense(), sparse() and factors(); kernel attention by every route the mask offers; softmax
/// attention; outputs and every gradient, over leading dimensions and non-contiguous inputs. Where there is a GPU, all
/// of it again for the mask moved there.
void expect_mask_is(const MaskPtr& mask, const at::Tensor& reference, double tolerance = 1e-10);

/// Random normal double tensor, the same for the same seed.
at::Tensor normal(at::IntArrayRef shape, uint64_t seed);

}  // namespace topomask::testing

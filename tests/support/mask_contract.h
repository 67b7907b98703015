#pragma once

#include <functional>

#include "topomask/mask.h"

namespace topomask::testing {

/// Everything a mask promises, against the same matrix made the plain way: `reference` [N, N] or [H, N, N], double,
/// differentiable in mask->parameters() by ordinary tensor operations.
///
/// Products with M and Mᵀ, dense(), sparse() and factors(); kernel attention by every route the mask offers; softmax
/// attention; outputs and every gradient, over leading dimensions and non-contiguous inputs; use by several threads at
/// once, before anything is cached; that it follows its parameters however they are written (parameter_changes.h).
/// Where there is a GPU, all of it again for the mask moved there. On the CPU all of it is the same bit for bit with 1,
/// 2 and 7 threads.
void expect_mask_is(const MaskPtr& mask, const at::Tensor& reference, double tolerance = 1e-10);

/// A mask made with 1, 2 and 7 threads is the same bit for bit: patterns, factors, products with M and Mᵀ, attention by
/// every route, and every gradient. Forms of N² entries are left out above some size. For sizes at which torch shares
/// out its work: `make` builds the mask, with the walks and decompositions it stands on.
void expect_same_for_any_threads(const std::function<MaskPtr()>& make);

/// Random normal double tensor, the same for the same seed.
at::Tensor normal(at::IntArrayRef shape, uint64_t seed);

}  // namespace topomask::testing

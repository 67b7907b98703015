#pragma once

#include "topomask/mask.h"

namespace topomask {

/// `count` different nodes, or all if there are fewer, ascending: int64.
at::Tensor sample_nodes(int64_t nodes, int64_t count, uint64_t seed);

/// Rows of M: [r, N] or [H, r, N].
at::Tensor mask_rows(const Mask& mask, const at::Tensor& rows);

}  // namespace topomask

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "topomask/mask.h"

namespace topomask::apps {

/// Rows of a mask: float [H, r, N] for nodes int64 [r], H = 1 for a mask of one head. M·X with r columns.
at::Tensor mask_rows(const Mask& mask, const at::Tensor& nodes);

/// Values as brightness in [0, 1] over four decades below the largest; 0 and below are dark.
at::Tensor four_decades(const at::Tensor& values);

/// A row [N] over the last two axes of a grid, other axes stacked downwards: [rows, cols]. A path is a line of pixels.
at::Tensor over_grid(const at::Tensor& row, const std::vector<int64_t>& dims);

/// Nodes worth looking at: a corner, the middle of an edge and the centre of a grid; otherwise spread evenly.
std::vector<int64_t> telling_nodes(int64_t nodes, const std::vector<int64_t>& dims);

}  // namespace topomask::apps

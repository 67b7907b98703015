#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "topomask/mask.h"

namespace topomask::apps {

/// Rows of a mask: float [H, r, N] for nodes int64 [r], H = 1 for a mask of one head. M·X with r columns.
at::Tensor mask_rows(const Mask& mask, const at::Tensor& nodes);

/// A row [N] over the last two axes of a grid, other axes stacked downwards: [rows, cols]. A path is a line of pixels.
at::Tensor over_grid(const at::Tensor& row, const std::vector<int64_t>& dims);

/// "node 406, row 14, column 14" in a grid of two axes; "node 406" elsewhere.
std::string node_name(int64_t node, const std::vector<int64_t>& dims);

/// Nodes worth looking at: a corner, the middle of an edge and the centre of a grid; otherwise spread evenly.
std::vector<int64_t> telling_nodes(int64_t nodes, const std::vector<int64_t>& dims);

}  // namespace topomask::apps

#pragma once

#include <ATen/core/Tensor.h>

#include "core/internal_api.h"

namespace TOPOMASK_INTERNAL_API topomask {
namespace ops::low_rank_level {

/// Adds to y what the components of one level of centroids give each other through a low-rank function of tree
/// distances, x and y [B, H, N, C]; the other arguments as LowRankLevels::Level has them. On a GPU only. The operator
/// `low_rank_level_`.
void add_products(at::Tensor& y, const at::Tensor& x, const at::Tensor& nodes, const at::Tensor& pieces,
                  const at::Tensor& components, const at::Tensor& send, const at::Tensor& receive, int64_t rank);

}  // namespace ops::low_rank_level
}  // namespace topomask

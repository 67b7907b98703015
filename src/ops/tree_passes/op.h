#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "core/internal_api.h"

namespace TOPOMASK_INTERNAL_API topomask {
namespace ops::tree_passes {

/// What reaches each node of a forest from inside its subtree and from outside, x [B, H, N, C] and a factor per edge
/// [H, N], by passes over heavy paths: `paths` are nodes, offsets, parent, heavy, light_offsets and light_children, all
/// int32, and `levels` the first path of each level. On a GPU only. The operator `tree_passes`.
std::tuple<at::Tensor, at::Tensor> inside_and_outside(const at::Tensor& x, const at::Tensor& edge, at::TensorList paths,
                                                      at::IntArrayRef levels);

}  // namespace ops::tree_passes
}  // namespace topomask

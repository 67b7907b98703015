#pragma once

#include <ATen/core/Tensor.h>

#include "core/internal_api.h"

namespace TOPOMASK_INTERNAL_API topomask {
namespace ops::nearest_neighbours {

/// int32 [N, k], by distance and then index, the point itself left out: points [N, dims] finite, 1 ≤ k < N. The
/// operator `nearest_neighbours`.
at::Tensor find(const at::Tensor& points, c10::SymInt k);

}  // namespace ops::nearest_neighbours
}  // namespace topomask

#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "core/internal_api.h"

namespace TOPOMASK_INTERNAL_API topomask {

using Segment = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

/// segment(inputs) without keeping what it computes on the way: the backward pass computes it again, under the same
/// autocast. `parameters` are the further leaves that the segment uses. The segment must be deterministic and draw no
/// random numbers. Differentiable once, in inputs and parameters; where no gradient is wanted it is called as it is.
std::vector<at::Tensor> recomputed(const Segment& segment, const std::vector<at::Tensor>& inputs,
                                   const std::vector<at::Tensor>& parameters);

}  // namespace topomask

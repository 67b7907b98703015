#pragma once

#include <ATen/core/Tensor.h>

#include "core/internal_api.h"
#include "tasks/points/batch.h"
#include "topomask/nn/point_clouds.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// How far predicted clouds [S·B, N, ...] are from those that the cameras saw, both ways: from the true points of the
/// batch's pixels to the nearest particles, and from the first `points` particles, which are in random order, to the
/// nearest true points. Where `coloured`, near means near in colour too: points have six coordinates, metres and
/// colours times 0.2 m. A mean of √(d² + δ²) − δ with δ = 2 mm, for each way half. Reaches as far as things move, where
/// the error of colours has a gradient of about a pixel. Pixels that see nothing do not count. The batch has whole
/// frames.
at::Tensor cloud_distance(const PointCloud& predicted, const SceneBatch& batch, bool coloured, int64_t points);

/// The mean of √(d² + δ²) − δ over vectors [..., 3], with δ = ½ mm.
at::Tensor mean_length(const at::Tensor& vectors);

}  // namespace topomask

#pragma once

#include <ATen/core/Tensor.h>

#include "core/internal_api.h"
#include "ops/nearest_neighbours/limits.h"

namespace TOPOMASK_INTERNAL_API topomask {
namespace ops::nearest_neighbours {

/// int32 [N, k], by distance and then index, the point itself left out: points [N, dims] finite, 1 ≤ k < N. The
/// operator `nearest_neighbours`.
at::Tensor find(const at::Tensor& points, c10::SymInt k);

/// The k points of each cloud that are nearest to each of its queries: queries [B, Q, dims] and points [B, N, dims],
/// finite and of one dtype → int32 [B, Q, k], places in the cloud, by distance and then index. 1 ≤ k ≤ N. With
/// `exclude_self` the queries are the points, and query i does not find point i: k < N. No distance is compared between
/// clouds. Nothing is read back from a GPU. The operator `nearest_points`.
at::Tensor find_in_clouds(const at::Tensor& queries, const at::Tensor& points, c10::SymInt k, bool exclude_self);

/// Whether there is a kernel for k neighbours of points with `dims` coordinates: on the CPU for all, on a GPU up to
/// kMostCudaNeighbours and kMostCudaDims.
constexpr bool supports(int64_t k, int64_t dims, at::DeviceType device) {
  return k >= 1 && dims >= 1 && (device == at::kCPU || (k <= kMostCudaNeighbours && dims <= kMostCudaDims));
}

/// What the operator asks of its arguments on every device.
void check_clouds(const at::Tensor& queries, const at::Tensor& points, int64_t k, bool exclude_self);

}  // namespace ops::nearest_neighbours
}  // namespace topomask

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "core/checks.h"
#include "ops/nearest_neighbours/cuda_kernel.h"
#include "ops/nearest_neighbours/op.h"

namespace topomask::ops::nearest_neighbours {

namespace {

using at::Tensor;

/// Contiguous points [clouds, N, dims] and queries [clouds, Q, dims].
Tensor nearest_in_clouds(const Tensor& queries, const Tensor& points, int64_t k, bool exclude_self) {
  const c10::cuda::CUDAGuard guard(points.device());
  // Enough blocks to fill the GPU, each with enough candidates: the first candidates of a block all pass the filter.
  constexpr int64_t kBlocks = 1024, kThreads = 128, kLeast = 1024;
  const int64_t clouds = points.size(0), count = points.size(1), queried = queries.size(1);
  const int64_t blocks = std::max<int64_t>(1, clouds * ((queried + kThreads - 1) / kThreads));
  const int64_t parts = std::clamp<int64_t>(kBlocks / blocks, 1, std::max<int64_t>(1, count / kLeast));
  const Tensor distance = at::empty({clouds, parts, k, queried}, points.options().dtype(at::kDouble));
  const Tensor index = at::empty({clouds, parts, k, queried}, points.options().dtype(at::kInt));
  const Tensor nearest = at::empty({clouds, queried, k}, index.options());
  AT_DISPATCH_FLOATING_TYPES(points.scalar_type(), "knn", [&] {
    cuda::knn(cuda::KnnArgs<scalar_t>{.points = points.const_data_ptr<scalar_t>(),
                                      .queries = queries.const_data_ptr<scalar_t>(),
                                      .count = count,
                                      .queried = queried,
                                      .clouds = clouds,
                                      .exclude_self = exclude_self,
                                      .dims = static_cast<int>(points.size(2)),
                                      .k = static_cast<int>(k),
                                      .parts = static_cast<int>(parts),
                                      .part_distance = distance.mutable_data_ptr<double>(),
                                      .part_index = index.mutable_data_ptr<int32_t>(),
                                      .nearest = nearest.mutable_data_ptr<int32_t>()},
              c10::cuda::getCurrentCUDAStream());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return nearest;
}

Tensor nearest_neighbours_cuda(const Tensor& given, int64_t k) {
  const Tensor points = given.contiguous();
  TORCH_CHECK(
      is_real(points.scalar_type()) && points.dim() == 2 && points.size(1) >= 1 && points.size(1) <= cuda::kMostDims,
      "knn: points must be float32 or float64 [N, 1 to ", cuda::kMostDims, "] on a GPU, got ", describe(points));
  TORCH_CHECK(k >= 1 && k <= cuda::kMostNeighbours && k < points.size(0), "knn: k must be in [1, ",
              cuda::kMostNeighbours, "] on a GPU, below the number of points, got ", k);
  const Tensor cloud = points.unsqueeze(0);
  return nearest_in_clouds(cloud, cloud, k, true).squeeze(0);
}

Tensor nearest_points_cuda(const Tensor& queries, const Tensor& points, int64_t k, bool exclude_self) {
  check_clouds(queries, points, k, exclude_self);
  TORCH_CHECK(k <= cuda::kMostNeighbours, "nearest_points: k must be at most ", cuda::kMostNeighbours,
              " on a GPU, got ", k);
  TORCH_CHECK(points.size(2) <= cuda::kMostDims, "nearest_points: points must have at most ", cuda::kMostDims,
              " coordinates on a GPU, got ", describe(points));
  return nearest_in_clouds(queries.contiguous(), points.contiguous(), k, exclude_self);
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CUDA, m) {
  m.impl("nearest_neighbours", nearest_neighbours_cuda);
  m.impl("nearest_points", nearest_points_cuda);
}

}  // namespace topomask::ops::nearest_neighbours

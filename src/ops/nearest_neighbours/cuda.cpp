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

void check_supported(const char* op, const Tensor& points, int64_t k) {
  TORCH_CHECK(supports(k, points.size(-1), at::kCUDA), op, ": k must be in [1, ", kMostCudaNeighbours,
              "] on a GPU, and points must have 1 to ", kMostCudaDims, " coordinates there, got k = ", k,
              " and points ", describe(points));
}

Tensor nearest_neighbours_cuda(const Tensor& given, int64_t k) {
  const Tensor points = given.contiguous();
  TORCH_CHECK(is_real(points.scalar_type()) && points.dim() == 2,
              "knn: points must be float32 or float64 [N, dims], got ", describe(points));
  check_supported("knn", points, k);
  TORCH_CHECK(k < points.size(0), "knn: k must be below the number of points, ", points.size(0), ", got ", k);
  const Tensor cloud = points.unsqueeze(0);
  return nearest_in_clouds(cloud, cloud, k, true).squeeze(0);
}

Tensor nearest_points_cuda(const Tensor& queries, const Tensor& points, int64_t k, bool exclude_self) {
  check_clouds(queries, points, k, exclude_self);
  check_supported("nearest_points", points, k);
  return nearest_in_clouds(queries.contiguous(), points.contiguous(), k, exclude_self);
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CUDA, m) {
  m.impl("nearest_neighbours", nearest_neighbours_cuda);
  m.impl("nearest_points", nearest_points_cuda);
}

}  // namespace topomask::ops::nearest_neighbours

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "core/checks.h"
#include "ops/low_rank_level/cuda_kernel.h"

namespace topomask::ops::low_rank_level {

namespace {

using at::Tensor;

Tensor& low_rank_level_cuda(Tensor& y, const Tensor& x, const Tensor& nodes, const Tensor& pieces,
                            const Tensor& components, const Tensor& send, const Tensor& receive, int64_t rank) {
  constexpr auto kFields = static_cast<int64_t>(sizeof(cuda::LowRankPiece) / sizeof(int64_t));
  TORCH_CHECK(x.dim() == 4 && is_real(x.scalar_type()) && x.is_contiguous() && y.is_contiguous() &&
                  y.sizes() == x.sizes() && y.scalar_type() == x.scalar_type(),
              "low_rank_level_: y must be contiguous and like x ", describe(x), ", got ", describe(y));
  TORCH_CHECK(pieces.dim() == 2 && pieces.size(1) == kFields, "low_rank_level_: pieces must be int64 [P, ", kFields,
              "], got ", describe(pieces));
  TORCH_CHECK(send.scalar_type() == x.scalar_type() && receive.scalar_type() == x.scalar_type(),
              "low_rank_level_: send and receive must be ", x.scalar_type(), " as x is, got ", describe(send), " and ",
              describe(receive));
  const c10::cuda::CUDAGuard guard(x.device());
  const Tensor sums = at::empty({x.size(0), x.size(1), pieces.size(0), cuda::kRanks, x.size(3)}, x.options());
  const Tensor others = at::empty_like(sums);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "low_rank_level_", [&] {
    const cuda::LowRankLevelArgs<scalar_t> args{
        .nodes = nodes.const_data_ptr<int32_t>(),
        .pieces = reinterpret_cast<const cuda::LowRankPiece*>(pieces.const_data_ptr<int64_t>()),
        .components = components.const_data_ptr<int64_t>(),
        .send = send.const_data_ptr<scalar_t>(),
        .receive = receive.const_data_ptr<scalar_t>(),
        .x = x.const_data_ptr<scalar_t>(),
        .y = y.mutable_data_ptr<scalar_t>(),
        .sums = sums.mutable_data_ptr<scalar_t>(),
        .others = others.mutable_data_ptr<scalar_t>(),
        .piece_count = pieces.size(0),
        .component_count = components.size(0) - 1,
        .size = x.size(2),
        .columns = x.size(3),
        .slices = x.size(0) * x.size(1)};
    for (int64_t first = 0; first < rank; first += cuda::kRanks) {
      cuda::low_rank_level(args, first, c10::cuda::getCurrentCUDAStream());
    }
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CUDA, m) {
  m.impl("low_rank_level_", low_rank_level_cuda);
}

}  // namespace topomask::ops::low_rank_level

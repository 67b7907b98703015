#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "core/cuda/long_rows.h"
#include "ops/pattern.h"
#include "ops/row_tiles/cuda_kernel.h"
#include "ops/row_tiles/layout.h"

namespace topomask::ops::row_tiles {

namespace {

using at::Tensor;

Tensor row_tiles_cuda(at::TensorList tensors) {
  const PatternTensors pattern("row_tiles", "pattern", tensors, PatternTensors::kRows);
  const c10::cuda::CUDAGuard guard(pattern.offsets.device());
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  const int64_t rows = pattern.rows(), count = RowTiles::count(rows), header = RowTiles::header(rows);
  const cuda::RowTilesArgs args{.offsets = pattern.offsets.const_data_ptr<int64_t>(),
                                .columns = pattern.columns.const_data_ptr<int32_t>(),
                                .rows = rows,
                                .longest_short_row = cuda::longest_short_row(pattern.entries(), rows)};
  const Tensor chunks = at::empty({count}, pattern.columns.options());
  cuda::count_chunks(args, chunks.mutable_data_ptr<int32_t>(), stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  const Tensor starts = at::constant_pad_nd(chunks.cumsum(0, at::kInt), {1, header - count - 1});
  const int64_t all = starts[count].item<int32_t>();
  Tensor tiles = at::empty({header + all * RowTiles::kChunkWords}, pattern.columns.options());
  tiles.narrow(0, 0, header).copy_(starts);
  cuda::list_chunks(args, tiles.mutable_data_ptr<int32_t>(), stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return tiles;
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CUDA, m) {
  m.impl("row_tiles", row_tiles_cuda);
}

}  // namespace topomask::ops::row_tiles

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "ops/product_pattern/cuda_kernel.h"
#include "ops/product_pattern/op.h"

namespace topomask::ops::product_pattern {

namespace {

using at::Tensor;

Two product_pattern_cuda(at::TensorList a, at::TensorList b) {
  const auto [left, right] = check(a, b);
  const Tensor &a_offsets = left.offsets, &a_columns = left.columns;
  const int64_t cols = right.rows();
  const c10::cuda::CUDAGuard guard(a_offsets.device());
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  constexpr int64_t kNarrow = 32768, kWideRows = 2112, kMostBytes = int64_t{256} << 20;
  const int64_t rows = a_offsets.size(0) - 1, words = cuda::pattern_words(cols);
  const int64_t wide_rows =
      cols <= kNarrow ? 0 : std::clamp<int64_t>(kMostBytes / (4 * words), 1, std::min(kWideRows, rows));
  const Tensor bits = at::zeros({wide_rows * words}, a_columns.options());
  const cuda::PatternArgs args{.a_offsets = a_offsets.const_data_ptr<int64_t>(),
                               .a_columns = a_columns.const_data_ptr<int32_t>(),
                               .bt_offsets = right.t_offsets.const_data_ptr<int64_t>(),
                               .bt_columns = right.t_columns.const_data_ptr<int32_t>(),
                               .rows = rows,
                               .cols = cols,
                               .words = reinterpret_cast<uint32_t*>(bits.mutable_data_ptr<int32_t>()),
                               .wide_rows = wide_rows};
  const Tensor lengths = at::empty({rows}, a_offsets.options());
  cuda::pattern_lengths(args, lengths.mutable_data_ptr<int64_t>(), stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  const Tensor offsets = at::constant_pad_nd(lengths.cumsum(0), {1, 0});
  const Tensor columns = at::empty({offsets[rows].item<int64_t>()}, a_columns.options());
  cuda::pattern_columns(args, offsets.const_data_ptr<int64_t>(), columns.mutable_data_ptr<int32_t>(), stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {offsets, columns};
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CUDA, m) {
  m.impl("product_pattern", product_pattern_cuda);
}

}  // namespace topomask::ops::product_pattern

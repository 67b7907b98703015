#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "masks/grf/product_arguments.h"
#include "masks/grf/product_cuda.h"

// Products of sparse matrices, and their patterns, on the GPU.

namespace topomask {
namespace {

using at::Tensor;
using at::TensorList;

template <class T>
cuda::ProductArgs<T> arguments(const ProductTensors& p, const Tensor& from, const Tensor& bt_values, const Tensor& to) {
  return {.a_offsets = p.a.offsets.const_data_ptr<int64_t>(),
          .a_columns = p.a.columns.const_data_ptr<int32_t>(),
          .bt_offsets = p.bt.offsets.const_data_ptr<int64_t>(),
          .bt_columns = p.bt.columns.const_data_ptr<int32_t>(),
          .bt_values = bt_values.const_data_ptr<T>(),
          .out_offsets = p.out.offsets.const_data_ptr<int64_t>(),
          .out_columns = p.out.columns.const_data_ptr<int32_t>(),
          .out_index = p.out.index.defined() ? p.out.index.const_data_ptr<int64_t>() : nullptr,
          .from = from.const_data_ptr<T>(),
          .to = to.mutable_data_ptr<T>(),
          .rows = p.a.offsets.size(0) - 1,
          .heads = p.b.size(0),
          .a_entries = p.a.columns.size(0),
          .b_entries = p.bt.columns.size(0),
          .out_entries = p.out.columns.size(0)};
}

template <class Kernel>
Tensor run_kernel(const ProductTensors& p, int64_t result_entries, const Kernel& kernel) {
  const c10::cuda::CUDAGuard guard(p.b.device());
  const Tensor bt_values = p.b.index_select(1, p.bt.index), from = p.from.contiguous();
  const Tensor to = at::empty({p.b.size(0), result_entries}, p.b.options());
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  if (p.b.scalar_type() == at::kFloat) {
    kernel(arguments<float>(p, from, bt_values, to), stream);
  } else {
    kernel(arguments<double>(p, from, bt_values, to), stream);
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return to;
}

constexpr auto kProduct = [](const auto& args, cudaStream_t stream) { cuda::product(args, stream); };
constexpr auto kGradient = [](const auto& args, cudaStream_t stream) { cuda::product_grad(args, stream); };

Tensor sparse_product_cuda(const Tensor& a, const Tensor& b, TensorList a_pattern, TensorList b_pattern,
                           TensorList out) {
  const ProductTensors p = check_product(a, b, a_pattern, b_pattern, out);
  return run_kernel(p, p.out.columns.size(0), kProduct);
}

Tensor sparse_gram_cuda(const Tensor& a, TensorList a_pattern, TensorList out) {
  const ProductTensors p = check_gram(a, a_pattern, out);
  return run_kernel(p, p.out.columns.size(0), kProduct);
}

Tensor sparse_product_backward_cuda(const Tensor& grad, const Tensor& b, TensorList a_pattern, TensorList b_pattern,
                                    TensorList out, bool transposed) {
  const ProductTensors p = check_product_backward(grad, b, a_pattern, b_pattern, out, transposed);
  return run_kernel(p, p.a.columns.size(0), kGradient);
}

std::tuple<Tensor, Tensor> product_pattern_cuda(const Tensor& a_offsets, const Tensor& a_columns,
                                                const Tensor& bt_offsets, const Tensor& bt_columns, int64_t cols) {
  const c10::cuda::CUDAGuard guard(a_offsets.device());
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  constexpr int64_t kNarrow = 32768, kWideRows = 2112, kMostBytes = int64_t{256} << 20;
  const int64_t rows = a_offsets.size(0) - 1, words = cuda::pattern_words(cols);
  const int64_t wide_rows =
      cols <= kNarrow ? 0 : std::clamp<int64_t>(kMostBytes / (4 * words), 1, std::min(kWideRows, rows));
  const Tensor bits = at::zeros({wide_rows * words}, a_columns.options());
  const cuda::PatternArgs args{.a_offsets = a_offsets.const_data_ptr<int64_t>(),
                               .a_columns = a_columns.const_data_ptr<int32_t>(),
                               .bt_offsets = bt_offsets.const_data_ptr<int64_t>(),
                               .bt_columns = bt_columns.const_data_ptr<int32_t>(),
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
  m.impl("sparse_product", sparse_product_cuda);
  m.impl("sparse_gram", sparse_gram_cuda);
  m.impl("sparse_product_backward", sparse_product_backward_cuda);
  m.impl("product_pattern", product_pattern_cuda);
}

}  // namespace topomask

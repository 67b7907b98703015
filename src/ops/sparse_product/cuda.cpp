#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "ops/sparse_product/cuda_kernel.h"
#include "ops/sparse_product/op.h"

namespace topomask::ops::sparse_product {
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

Tensor multiply_cuda(const Tensor& a, const Tensor& b, TensorList a_pattern, TensorList b_pattern, TensorList out) {
  const ProductTensors p = check_product(a, b, a_pattern, b_pattern, out);
  return run_kernel(p, p.out.columns.size(0), kProduct);
}

Tensor gram_cuda(const Tensor& a, TensorList a_pattern, TensorList out) {
  const ProductTensors p = check_gram(a, a_pattern, out);
  return run_kernel(p, p.out.columns.size(0), kProduct);
}

Tensor backward_cuda(const Tensor& grad, const Tensor& b, TensorList a_pattern, TensorList b_pattern, TensorList out,
                     bool transposed) {
  const ProductTensors p = check_backward(grad, b, a_pattern, b_pattern, out, transposed);
  return run_kernel(p, p.a.columns.size(0), kGradient);
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CUDA, m) {
  m.impl("sparse_product", multiply_cuda);
  m.impl("sparse_gram", gram_cuda);
  m.impl("sparse_product_backward", backward_cuda);
}

}  // namespace topomask::ops::sparse_product

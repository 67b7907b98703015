#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "core/checks.h"
#include "core/cuda/dispatch.h"
#include "core/cuda/long_rows.h"
#include "core/cuda/strands.h"
#include "ops/spmm/cuda_kernel.h"
#include "ops/spmm/op.h"

// spmm, spmm_transposed and sddmm on the GPU.

namespace topomask::ops::spmm {

namespace {

using at::Tensor;

/// y = M x over rows given by offsets and columns.
Tensor product(const Tensor& values, const Tensor& x, const Tensor& offsets, const Tensor& columns,
               const Tensor& index) {
  const c10::cuda::CUDAGuard guard(x.device());
  const Tensor rows = cuda::to_rows(x), plain_values = values.contiguous();
  const int64_t out_rows = offsets.size(0) - 1;
  const Tensor y = at::empty({x.size(0), x.size(1), out_rows, rows.size(3)}, x.options());
  cuda::dispatch(x.scalar_type(), [&]<class T, class A>(cuda::Types<T, A>) {
    cuda::SpmmArgs<T, A> args{};
    args.offsets = offsets.const_data_ptr<int64_t>();
    args.columns = columns.const_data_ptr<int32_t>();
    args.index = index.defined() ? index.const_data_ptr<int64_t>() : nullptr;
    args.values = plain_values.const_data_ptr<A>();
    args.x = cuda::data<T>(rows);
    args.y = cuda::data<T>(y);
    args.rows = out_rows;
    args.cols = x.size(2);
    args.entries = columns.size(0);
    args.slices = x.size(0) * x.size(1);
    args.heads = x.size(1);
    args.value_heads = values.size(0);
    args.width = static_cast<int>(rows.size(3));
    args.longest_short_row = cuda::longest_short_row(args.entries, args.rows);
    cuda::spmm(args, c10::cuda::getCurrentCUDAStream());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return cuda::from_rows(y, x.size(3));
}

Tensor multiply_cuda(const Tensor& values, const Tensor& x, at::TensorList pattern) {
  const PatternTensors p = check("spmm", values, x, pattern, false);
  return product(values, x, p.offsets, p.columns, {});
}

Tensor multiply_transposed_cuda(const Tensor& values, const Tensor& x, at::TensorList pattern) {
  const PatternTensors p = check("spmm_transposed", values, x, pattern, true);
  return product(values, x, p.t_offsets, p.t_columns, p.t_index);
}

Tensor sddmm_cuda(const Tensor& a, const Tensor& b, at::TensorList tensors, int64_t value_heads) {
  const PatternTensors pattern = check_sddmm(a, b, tensors, value_heads);
  const c10::cuda::CUDAGuard guard(a.device());
  const Tensor left = cuda::to_rows(a), right = cuda::to_rows(b);
  const int64_t slices = a.size(0) * a.size(1);
  const auto options = a.options().dtype(accumulation_type(a.scalar_type()));
  const int64_t strands = cuda::strands(pattern.rows(), slices, value_heads);
  const Tensor out = cuda::strand_sums(strands, pattern.entries(), slices, options);
  cuda::dispatch(a.scalar_type(), [&]<class T, class A>(cuda::Types<T, A>) {
    cuda::SddmmArgs<T, A> args{};
    args.offsets = pattern.offsets.const_data_ptr<int64_t>();
    args.columns = pattern.columns.const_data_ptr<int32_t>();
    args.a = cuda::data<T>(left);
    args.b = cuda::data<T>(right);
    args.out = out.mutable_data_ptr<A>();
    args.rows = pattern.rows();
    args.cols = b.size(2);
    args.entries = pattern.entries();
    args.slices = slices;
    args.strands = strands;
    args.width = static_cast<int>(left.size(3));
    args.longest_short_row = cuda::longest_short_row(args.entries, args.rows);
    cuda::sddmm(args, c10::cuda::getCurrentCUDAStream());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return cuda::sum_of_strands(out, value_heads);
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CUDA, m) {
  m.impl("spmm", multiply_cuda);
  m.impl("spmm_transposed", multiply_transposed_cuda);
  m.impl("sddmm", sddmm_cuda);
}

}  // namespace topomask::ops::spmm

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "core/checks.h"
#include "core/cuda/dispatch.h"
#include "ops/hop_pairs/cuda_kernel.h"
#include "ops/hop_pairs/op.h"

namespace topomask::ops::hop_pairs {

namespace {

using at::Tensor;
using at::TensorList;

template <class T>
Table<T> device_table(const TableTensors& t) {
  return {t.offsets.const_data_ptr<int64_t>(), t.columns.const_data_ptr<int32_t>(),
          t.features.const_data_ptr<int64_t>(), t.hops.const_data_ptr<int16_t>(), t.loads.const_data_ptr<T>()};
}

Three make_cuda(TensorList left, TensorList right, TensorList product, int64_t terms, int64_t most) {
  const MeetingTensors m = check_make(left, right, product, terms);
  const c10::cuda::CUDAGuard guard(m.offsets.device());
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  const int64_t entries = m.columns.size(0);
  const Tensor lengths = at::empty({entries}, m.columns.options());
  Tensor offsets = at::empty({0}, lengths.options()), pairs = at::empty({0}, lengths.options().dtype(at::kByte)),
         sums = at::empty({0}, m.left.loads.options());
  cuda::with_real(m.left.loads.scalar_type(), [&]<class T>(T) {
    const cuda::MeetingArgs<T> args{.left = device_table<T>(m.left),
                                    .right = device_table<T>(m.right),
                                    .offsets = m.offsets.const_data_ptr<int64_t>(),
                                    .columns = m.columns.const_data_ptr<int32_t>(),
                                    .rows = m.offsets.size(0) - 1,
                                    .entries = entries,
                                    .terms = static_cast<int>(terms)};
    cuda::pair_list_lengths(args, lengths.mutable_data_ptr<int32_t>(), stream);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    const int64_t total = lengths.sum().item<int64_t>();
    if (total > std::min<int64_t>(most, INT32_MAX)) return;
    offsets = at::constant_pad_nd(lengths.cumsum(0, at::kInt), {1, 0});
    pairs = at::empty({total}, pairs.options());
    sums = at::empty({total}, sums.options());
    cuda::write_pair_lists(args, offsets.const_data_ptr<int32_t>(), pairs.mutable_data_ptr<uint8_t>(),
                           sums.mutable_data_ptr<T>(), stream);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return {offsets, pairs, sums};
}

template <class T>
cuda::PairListArgs<T> device_lists(const Tensor& offsets, const Tensor& pairs, const Tensor& sums, int64_t heads,
                                   int64_t count) {
  return {.offsets = offsets.const_data_ptr<int32_t>(),
          .pairs = pairs.const_data_ptr<uint8_t>(),
          .sums = sums.const_data_ptr<T>(),
          .entries = offsets.size(0) - 1,
          .heads = heads,
          .count = static_cast<int>(count)};
}

Tensor values_cuda(const Tensor& g, const Tensor& offsets, const Tensor& pairs, const Tensor& sums) {
  check_lists("hop_pair_values", g, "g", offsets, pairs, sums);
  const c10::cuda::CUDAGuard guard(g.device());
  const Tensor coefficients = g.contiguous(), values = at::empty({g.size(0), offsets.size(0) - 1}, g.options());
  cuda::with_real(g.scalar_type(), [&]<class T>(T) {
    cuda::pair_values(device_lists<T>(offsets, pairs, sums, g.size(0), g.size(1)), coefficients.const_data_ptr<T>(),
                      values.mutable_data_ptr<T>(), c10::cuda::getCurrentCUDAStream());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return values;
}

Tensor backward_cuda(const Tensor& grad, const Tensor& offsets, const Tensor& pairs, const Tensor& sums,
                     int64_t count) {
  const char* op = "hop_pair_values_backward";
  check_lists(op, grad, "grad", offsets, pairs, sums);
  const int64_t entries = offsets.size(0) - 1;
  TORCH_CHECK(grad.size(1) == entries, op, ": grad must be [H, ", entries, "], got ", describe(grad));
  TORCH_CHECK(count >= 0 && count <= 256, op, ": count must be in [0, 256], got ", count);
  const c10::cuda::CUDAGuard guard(grad.device());
  const Tensor plain = grad.contiguous();
  const Tensor partial =
      at::empty({grad.size(0), count, cuda::pair_gradient_blocks(entries)}, grad.options().dtype(at::kDouble));
  cuda::with_real(grad.scalar_type(), [&]<class T>(T) {
    cuda::pair_gradients(device_lists<T>(offsets, pairs, sums, grad.size(0), count), plain.const_data_ptr<T>(),
                         partial.mutable_data_ptr<double>(), c10::cuda::getCurrentCUDAStream());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return partial.sum(-1).to(grad.scalar_type());
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CUDA, m) {
  m.impl("hop_pairs", make_cuda);
  m.impl("hop_pair_values", values_cuda);
  m.impl("hop_pair_values_backward", backward_cuda);
}

}  // namespace topomask::ops::hop_pairs

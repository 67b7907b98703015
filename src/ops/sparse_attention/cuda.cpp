#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/library.h>

#include "core/checks.h"
#include "core/cuda/dispatch.h"
#include "core/cuda/long_rows.h"
#include "core/cuda/strands.h"
#include "ops/constant_offsets.h"
#include "ops/row_layout.h"
#include "ops/row_tiles/layout.h"
#include "ops/sparse_attention/cuda_kernel.h"
#include "ops/sparse_attention/op.h"

// sparse_attention_forward and _backward on the GPU: checks, layout and launches. Scores are never kept; the backward
// makes them again from rows it reads anyway.

namespace topomask::ops::sparse_attention {

namespace {

using at::Tensor;

cuda::RowStrides strides(const Tensor& rows) {
  return {rows.stride(0), rows.stride(1), rows.stride(2)};
}

/// The tiles of the rows of a pattern, checked; null where they were not given or the kernels do not use them.
const int32_t* tiles(const char* name, const Tensor& given, int64_t rows, const Tensor& q, const Tensor& v,
                     int64_t entries) {
  if (!given.defined()) return nullptr;
  const int64_t header = RowTiles::header(rows);
  TORCH_CHECK(given.size(0) >= header && (given.size(0) - header) % RowTiles::kChunkWords == 0,
              "sparse_attention: ", name, " of pattern must be row_tiles of ", rows, " rows, got ", describe(given));
  const Shape shape{q.scalar_type(), q.size(3), v.size(3), entries, at::kCUDA};
  return uses_tiles(shape) ? given.const_data_ptr<int32_t>() : nullptr;
}

/// Whether a launch must look for long rows: for patterns of the library it is known after the first call.
bool may_have_long_rows(const Tensor& offsets, int64_t entries, int64_t distinct_columns, int longest_short) {
  if (!cuda::may_have_long_rows(entries, distinct_columns, longest_short)) return false;
  const bool may_wait = c10::cuda::currentStreamCaptureStatusMayInitCtx() == c10::cuda::CaptureStatus::None;
  const auto longest = ConstantOffsets::longest_row(offsets, may_wait);
  return !longest || *longest > longest_short;
}

/// The rule, sizes and inputs of a call; outputs are null.
template <class T, class A>
cuda::AttentionArgs<T, A> arguments(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values,
                                    const PatternTensors& pattern, const Rule& rule) {
  cuda::AttentionArgs<T, A> args{};
  args.offsets = pattern.offsets.const_data_ptr<int64_t>();
  args.columns = pattern.columns.const_data_ptr<int32_t>();
  args.tiles = tiles("tiles", pattern.tiles, pattern.rows(), q, v, pattern.entries());
  args.values = values.const_data_ptr<A>();
  args.q = cuda::data<T>(q);
  args.k = cuda::data<T>(k);
  args.v = cuda::data<T>(v);
  args.q_strides = strides(q);
  args.k_strides = strides(k);
  args.v_strides = strides(v);
  args.rows = pattern.rows();
  args.cols = pattern.cols();
  args.entries = pattern.entries();
  args.slices = q.size(0) * q.size(1);
  args.heads = q.size(1);
  args.value_heads = values.size(0);
  args.features = static_cast<int>(q.size(3));
  args.value_dim = static_cast<int>(v.size(3));
  args.longest_short_row = cuda::longest_short_row(args.entries, args.rows);
  args.may_have_long_rows = may_have_long_rows(pattern.offsets, args.entries, args.cols, args.longest_short_row);
  args.scale = static_cast<A>(rule.scale);
  args.eps = std::max(static_cast<A>(rule.eps), std::numeric_limits<A>::min());
  return args;
}

Four forward_cuda(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values, at::TensorList tensors,
                  bool softmax, double scale, double eps, bool, bool nodes_first) {
  const Rule rule{softmax, scale, eps};
  const PatternTensors pattern = check(q, k, v, values, tensors, rule);
  const c10::cuda::CUDAGuard guard(q.device());
  const Tensor q_rows = cuda::readable_rows(q), k_rows = cuda::readable_rows(k), v_rows = cuda::readable_rows(v);
  const Tensor plain_values = values.contiguous();
  const Tensor out = empty_rows({q.size(0), q.size(1), q.size(2), v_rows.size(3)}, v.options(), nodes_first);
  const Tensor denominator = at::empty({q.size(0), q.size(1), q.size(2)}, values.options());
  const Tensor row_max = softmax ? at::empty_like(denominator) : at::empty({0}, values.options());
  cuda::dispatch(q.scalar_type(), [&]<class T, class A>(cuda::Types<T, A>) {
    auto args = arguments<T, A>(q_rows, k_rows, v_rows, plain_values, pattern, rule);
    args.out = cuda::data<T>(out);
    args.out_strides = strides(out);
    args.row_max = softmax ? row_max.mutable_data_ptr<A>() : nullptr;
    args.denominator = denominator.mutable_data_ptr<A>();
    cuda::sparse_attention(args, c10::cuda::getCurrentCUDAStream());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {in_row_layout(out.narrow(3, 0, v.size(3)), nodes_first), row_max, denominator,
          at::empty({0}, values.options())};
}

Four backward_cuda(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values,
                   at::TensorList tensors, at::TensorList results, bool softmax, double scale, double eps,
                   bool want_values) {
  const Rule rule{softmax, scale, eps};
  const PatternTensors pattern = check(q, k, v, values, tensors, rule);
  check_results(results);
  const Tensor &out = results[0], &row_max = results[1], &denominator = results[2];
  const c10::cuda::CUDAGuard guard(q.device());
  const Tensor q_rows = cuda::readable_rows(q), k_rows = cuda::readable_rows(k), v_rows = cuda::readable_rows(v);
  const Tensor grad_rows = cuda::readable_rows(grad_out), out_rows = cuda::readable_rows(out);
  const Tensor plain_values = values.contiguous(), plain_denominator = denominator.contiguous(),
               plain_max = row_max.contiguous();
  const auto empty_like = [](const Tensor& rows) { return at::empty(rows.sizes(), rows.options()); };
  const Tensor grad_q = empty_like(q_rows), grad_k = empty_like(k_rows), grad_v = empty_like(v_rows);
  const int64_t slices = q.size(0) * q.size(1);
  const int64_t strands = want_values ? cuda::strands(pattern.rows(), slices, values.size(0)) : slices;
  const Tensor grad_values = want_values ? cuda::strand_sums(strands, pattern.entries(), slices, values.options())
                                         : at::empty({0, 0}, values.options());
  cuda::dispatch(q.scalar_type(), [&]<class T, class A>(cuda::Types<T, A>) {
    cuda::AttentionBackwardArgs<T, A> args{};
    args.forward = arguments<T, A>(q_rows, k_rows, v_rows, plain_values, pattern, rule);
    args.forward.out = cuda::data<T>(out_rows);
    args.forward.out_strides = strides(out_rows);
    args.forward.row_max = softmax ? plain_max.mutable_data_ptr<A>() : nullptr;
    args.forward.denominator = plain_denominator.mutable_data_ptr<A>();
    args.t_offsets = pattern.t_offsets.const_data_ptr<int64_t>();
    args.t_columns = pattern.t_columns.const_data_ptr<int32_t>();
    args.t_index = pattern.t_index.const_data_ptr<int64_t>();
    args.t_tiles = tiles("t_tiles", pattern.t_tiles, pattern.cols(), q, v, pattern.entries());
    args.grad_out = cuda::data<T>(grad_rows);
    args.grad_strides = strides(grad_rows);
    args.grad_q = cuda::data<T>(grad_q);
    args.grad_k = cuda::data<T>(grad_k);
    args.grad_v = cuda::data<T>(grad_v);
    args.grad_values = want_values ? grad_values.mutable_data_ptr<A>() : nullptr;
    args.strands = strands;
    args.longest_short_column = cuda::longest_short_row(pattern.entries(), pattern.cols());
    args.may_have_long_columns =
        may_have_long_rows(pattern.t_offsets, pattern.entries(), pattern.rows(), args.longest_short_column);
    const Tensor pairs = at::empty({slices, pattern.entries(), cuda::kPairBytes<T, A>}, q.options().dtype(at::kByte));
    args.pairs = pairs.mutable_data_ptr();
    cuda::sparse_attention_backward(args, c10::cuda::getCurrentCUDAStream());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {cuda::from_rows(grad_q, q.size(3)), cuda::from_rows(grad_k, k.size(3)), cuda::from_rows(grad_v, v.size(3)),
          want_values ? cuda::sum_of_strands(grad_values, values.size(0)) : grad_values};
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CUDA, m) {
  m.impl("sparse_attention_forward", forward_cuda);
  m.impl("sparse_attention_backward", backward_cuda);
}

}  // namespace topomask::ops::sparse_attention

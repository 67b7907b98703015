#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "core/checks.h"
#include "core/cuda/dispatch.h"
#include "ops/pattern.h"
#include "ops/placed_gram/cuda_kernel.h"
#include "ops/placed_gram/op.h"

namespace topomask::ops::placed_gram {

namespace {

using at::Tensor;
using at::TensorList;

cuda::PlacePatterns place_patterns(const PatternTensors& a, const PatternTensors& out) {
  return {.a_offsets = a.offsets.const_data_ptr<int64_t>(),
          .a_columns = a.columns.const_data_ptr<int32_t>(),
          .t_offsets = a.t_offsets.const_data_ptr<int64_t>(),
          .t_columns = a.t_columns.const_data_ptr<int32_t>(),
          .out_offsets = out.offsets.const_data_ptr<int64_t>(),
          .out_columns = out.columns.const_data_ptr<int32_t>(),
          .out_mirror = out.t_index.const_data_ptr<int64_t>(),
          .rows = a.rows()};
}

std::tuple<Tensor, Tensor> make_cuda(TensorList a_list, TensorList out_list, int64_t most) {
  const PatternTensors a("gram_places", "a", a_list, PatternTensors::kBoth),
      out("gram_places", "out", out_list, PatternTensors::kBoth);
  TORCH_CHECK(out.rows() == a.rows() && out.cols() == a.rows(), "gram_places: out must be [", a.rows(), ", ", a.rows(),
              "], as a says, got [", out.rows(), ", ", out.cols(), "]");
  const c10::cuda::CUDAGuard guard(a.offsets.device());
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  const Tensor none = at::empty({0}, a.offsets.options()), no_places = at::empty({0}, none.options().dtype(at::kByte));
  if (a.rows() == 0) return {none, no_places};
  const Tensor bytes = at::empty({a.rows()}, a.offsets.options());
  cuda::place_bytes(place_patterns(a, out), kLongestRow, bytes.mutable_data_ptr<int64_t>(), stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  const Tensor sizes = at::stack({bytes.min(), bytes.sum()}).cpu();
  const int64_t total = sizes[1].item<int64_t>();
  if (sizes[0].item<int64_t>() < 0 || total > most) return {none, no_places};
  const Tensor starts = at::constant_pad_nd(bytes.cumsum(0), {1, 0}), places = at::empty({total}, no_places.options());
  cuda::write_places(place_patterns(a, out), starts.const_data_ptr<int64_t>(), places.mutable_data_ptr<uint8_t>(),
                     stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {starts, places};
}

/// `from` through kernel(args, stream), [H, entries] of the result.
template <class Kernel>
Tensor run_placed(const char* op, const Tensor& values, const Tensor& given, TensorList a_list, TensorList out_list,
                  const Tensor& starts, const Tensor& places, bool gradient, const Kernel& kernel) {
  const PatternTensors a(op, "a", a_list, PatternTensors::kBoth), out(op, "out", out_list, PatternTensors::kBoth);
  const int64_t heads = values.size(0);
  TORCH_CHECK(values.dim() == 2 && is_real(values.scalar_type()) && values.size(1) == a.entries(), op,
              ": values must be float32 or float64 [H, ", a.entries(), "], got ", describe(values));
  TORCH_CHECK(
      !gradient ||
          (given.sizes() == at::IntArrayRef({heads, out.entries()}) && given.scalar_type() == values.scalar_type()),
      op, ": grad must be ", values.scalar_type(), " [", heads, ", ", out.entries(), "], got ", describe(given));
  TORCH_CHECK(starts.dim() == 1 && starts.scalar_type() == at::kLong && starts.size(0) == a.rows() + 1 &&
                  starts.device() == values.device() && starts.is_contiguous(),
              op, ": starts must be contiguous int64 [", a.rows() + 1, "] on ", values.device(), ", got ",
              describe(starts));
  TORCH_CHECK(places.dim() == 1 && places.scalar_type() == at::kByte && places.device() == values.device() &&
                  places.is_contiguous(),
              op, ": places must be contiguous uint8 on ", values.device(), ", got ", describe(places));
  const c10::cuda::CUDAGuard guard(values.device());
  const Tensor from = given.contiguous(), turned = values.index_select(1, a.t_index);
  const Tensor to = at::empty({heads, gradient ? a.entries() : out.entries()}, values.options());
  cuda::with_real(values.scalar_type(), [&]<class T>(T) {
    kernel(cuda::PlacedArgs<T>{.patterns = place_patterns(a, out),
                               .starts = starts.const_data_ptr<int64_t>(),
                               .places = places.const_data_ptr<uint8_t>(),
                               .t_values = turned.const_data_ptr<T>(),
                               .from = from.const_data_ptr<T>(),
                               .to = to.mutable_data_ptr<T>(),
                               .a_entries = a.entries(),
                               .out_entries = out.entries(),
                               .heads = heads},
           c10::cuda::getCurrentCUDAStream());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return to;
}

Tensor gram_cuda(const Tensor& values, TensorList a, TensorList out, const Tensor& starts, const Tensor& places) {
  return run_placed("placed_gram", values, values, a, out, starts, places, false,
                    [](const auto& args, cudaStream_t stream) { cuda::placed_product(args, stream); });
}

Tensor backward_cuda(const Tensor& grad, const Tensor& values, TensorList a, TensorList out, const Tensor& starts,
                     const Tensor& places) {
  return run_placed("placed_gram_backward", values, grad, a, out, starts, places, true,
                    [](const auto& args, cudaStream_t stream) { cuda::placed_gradient(args, stream); });
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CUDA, m) {
  m.impl("gram_places", make_cuda);
  m.impl("placed_gram", gram_cuda);
  m.impl("placed_gram_backward", backward_cuda);
}

}  // namespace topomask::ops::placed_gram

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "core/checks.h"
#include "core/cuda/dispatch.h"
#include "ops/layer_norm_rows/cuda_kernel.h"
#include "ops/layer_norm_rows/op.h"

namespace topomask::ops::layer_norm_rows {

namespace {

using at::Tensor;

/// f(T{}, O{}) for the types of x and of the result, which supports() accepts.
template <class F>
void with_types(at::ScalarType x, at::ScalarType out, const F& f) {
  if (x == at::kBFloat16) return f(__nv_bfloat16{}, __nv_bfloat16{});
  if (x == at::kHalf) return f(__half{}, __half{});
  if (out == at::kBFloat16) return f(float{}, __nv_bfloat16{});
  if (out == at::kHalf) return f(float{}, __half{});
  f(float{}, float{});
}

void check_supported(const char* op, const Tensor& x, at::ScalarType dtype) {
  TORCH_CHECK(supports(x.size(-1), x.scalar_type(), dtype), op,
              ": x must be float32, bfloat16 or float16 [..., width], width a multiple of 4 of at most 256, and dtype "
              "that of x or narrower, on cuda, got ",
              describe(x), " and dtype ", dtype);
}

cuda::NormSizes sizes_of(const Tensor& x) {
  return {x.numel() / x.size(-1), static_cast<int>(x.size(-1))};
}

Three forward_cuda(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, at::ScalarType dtype) {
  check(x, weight, bias, eps, dtype);
  check_supported("layer_norm_rows", x, dtype);
  const c10::cuda::CUDAGuard guard(x.device());
  const at::TensorOptions sums = x.options().dtype(at::kFloat);
  const Tensor out = at::empty(x.sizes(), x.options().dtype(dtype)),
               mean = at::empty(x.sizes().slice(0, x.dim() - 1), sums), rstd = at::empty_like(mean);
  const Tensor rows = cuda::aligned(x), w = cuda::aligned(weight.to(at::kFloat)),
               b = cuda::aligned(bias.to(at::kFloat));
  with_types(x.scalar_type(), dtype, [&]<class T, class O>(T, O) {
    cuda::layer_norm_rows<T, O>(cuda::data<const T>(rows), cuda::data<const float>(w), cuda::data<const float>(b),
                                cuda::data<O>(out), cuda::data<float>(mean), cuda::data<float>(rstd),
                                static_cast<float>(eps), sizes_of(x), c10::cuda::getCurrentCUDAStream());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {out, mean, rstd};
}

Three backward_cuda(const Tensor& grad, const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& rstd) {
  check_backward(grad, x, weight, mean, rstd);
  check_supported("layer_norm_rows_backward", x, grad.scalar_type());
  const c10::cuda::CUDAGuard guard(x.device());
  const cuda::NormSizes sizes = sizes_of(x);
  const Tensor of_x = at::empty(x.sizes(), x.options());
  const Tensor sums = at::empty({cuda::layer_norm_rows_blocks(sizes), 2, sizes.width}, mean.options());
  const Tensor g = cuda::aligned(grad), rows = cuda::aligned(x), w = cuda::aligned(weight.to(at::kFloat)),
               m = mean.contiguous(), r = rstd.contiguous();
  with_types(x.scalar_type(), grad.scalar_type(), [&]<class T, class O>(T, O) {
    cuda::layer_norm_rows_backward<T, O>(cuda::data<const O>(g), cuda::data<const T>(rows), cuda::data<const float>(w),
                                         cuda::data<const float>(m), cuda::data<const float>(r), cuda::data<T>(of_x),
                                         cuda::data<float>(sums), sizes, c10::cuda::getCurrentCUDAStream());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  const Tensor whole = sums.sum(0).to(weight.scalar_type());
  return {of_x, whole[0].clone(), whole[1].clone()};
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CUDA, m) {
  m.impl("layer_norm_rows", forward_cuda);
  m.impl("layer_norm_rows_backward", backward_cuda);
}

}  // namespace topomask::ops::layer_norm_rows

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "core/checks.h"
#include "core/cuda/dispatch.h"
#include "ops/relu_qkv/cuda_kernel.h"
#include "ops/relu_qkv/op.h"

namespace topomask::ops::relu_qkv {

namespace {

using at::Tensor;

cuda::QkvSizes sizes_of(const Tensor& qkv) {
  return {qkv.size(0), qkv.size(1), static_cast<int>(qkv.size(3)), static_cast<int>(qkv.size(4))};
}

void check_supported(const char* op, const Tensor& qkv) {
  TORCH_CHECK(supports(qkv) || qkv.numel() == 0, op, ": qkv must be ", node_dtypes(at::kCUDA),
              ", contiguous, 16-byte aligned and have d, a multiple of 8, got ", describe(qkv));
}

Tensor forward_cuda(const Tensor& qkv, double offset) {
  check(qkv, offset);
  check_supported("relu_qkv", qkv);
  const c10::cuda::CUDAGuard guard(qkv.device());
  const Tensor features = at::empty({qkv.size(0), qkv.size(1), 2, qkv.size(3), qkv.size(4)}, qkv.options());
  cuda::dispatch(qkv.scalar_type(), [&]<class T, class A>(cuda::Types<T, A>) {
    cuda::relu_qkv<T>(cuda::data<const T>(qkv), cuda::data<T>(features), offset, sizes_of(qkv),
                      c10::cuda::getCurrentCUDAStream());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return features;
}

Tensor backward_cuda(const Tensor& grad_q, const Tensor& grad_k, const Tensor& grad_v, const Tensor& qkv) {
  check_gradients(grad_q, grad_k, grad_v, qkv);
  check_supported("relu_qkv_backward", qkv);
  const c10::cuda::CUDAGuard guard(qkv.device());
  const Tensor grad = at::empty(qkv.sizes(), qkv.options());
  if (grad.numel() == 0) return grad;
  const Tensor q = cuda::readable_rows(grad_q), k = cuda::readable_rows(grad_k), v = cuda::readable_rows(grad_v);
  cuda::dispatch(qkv.scalar_type(), [&]<class T, class A>(cuda::Types<T, A>) {
    const auto rows = [](const Tensor& x) {
      return cuda::HeadRows<T>{cuda::data<const T>(x), x.stride(0), x.stride(1), x.stride(2)};
    };
    cuda::relu_qkv_backward<T>(rows(q), rows(k), rows(v), cuda::data<const T>(qkv), cuda::data<T>(grad), sizes_of(qkv),
                               c10::cuda::getCurrentCUDAStream());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return grad;
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CUDA, m) {
  m.impl("relu_qkv", forward_cuda);
  m.impl("relu_qkv_backward", backward_cuda);
}

}  // namespace topomask::ops::relu_qkv

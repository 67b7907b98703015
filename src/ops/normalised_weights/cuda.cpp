#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <algorithm>

#include "core/cuda/dispatch.h"
#include "ops/normalised_weights/cuda_kernel.h"
#include "ops/normalised_weights/op.h"

// normalised_weights on the GPU: the fused kernels where rows fit their registers, torch's operations otherwise.

namespace topomask::ops::normalised_weights {
namespace {

using at::Tensor;

bool fits(const Tensor& scores) {
  const int64_t bytes = scores.size(3) * scores.element_size();
  return scores.numel() > 0 && bytes % 16 == 0 && bytes / 16 <= cuda::kLongestRow;
}

template <class T, class A>
cuda::WeightsArgs<T, A> arguments(const Tensor& scores, const Tensor& mask, const Tensor& denominator, double eps) {
  return {.scores = cuda::data<T>(scores),
          .mask = cuda::data<A>(mask),
          .denominator = cuda::data<A>(denominator),
          .batch = scores.size(0),
          .heads = scores.size(1),
          .mask_heads = mask.size(0),
          .rows = scores.size(2),
          .cols = scores.size(3),
          .eps = static_cast<A>(eps)};
}

Two forward_cuda(const Tensor& scores_in, const Tensor& mask_in, double eps) {
  check(scores_in, mask_in, eps);
  if (!fits(scores_in)) return forward_plain(scores_in, mask_in, eps);
  const c10::cuda::CUDAGuard guard(scores_in.device());
  const Tensor scores = cuda::aligned(scores_in), mask = cuda::aligned(mask_in), weights = at::empty_like(scores);
  const Tensor denominator = at::empty({scores.size(0), scores.size(1), scores.size(2)}, mask.options());
  cuda::dispatch(scores.scalar_type(), [&]<class T, class A>(cuda::Types<T, A>) {
    cuda::normalised_weights(arguments<T, A>(scores, mask, denominator, eps), cuda::data<T>(weights),
                             c10::cuda::getCurrentCUDAStream());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {weights, denominator};
}

Two backward_cuda(const Tensor& grad_in, const Tensor& scores_in, const Tensor& mask_in, const Tensor& denominator,
                  double eps) {
  if (!fits(scores_in)) return backward_plain(grad_in, scores_in, mask_in, denominator, eps);
  const c10::cuda::CUDAGuard guard(scores_in.device());
  const Tensor grad = cuda::aligned(grad_in), scores = cuda::aligned(scores_in), mask = cuda::aligned(mask_in);
  const Tensor grad_scores = at::empty_like(scores);
  // Warps enough to keep the GPU busy, each with a few slices to sum over.
  constexpr int64_t kWarps = 16384;
  const int64_t shared = scores.size(0) * scores.size(1) / mask.size(0), mask_rows = mask.size(0) * mask.size(1);
  const int64_t parts = std::clamp<int64_t>(kWarps / mask_rows, 1, shared);
  const Tensor sums = at::empty({parts, mask.size(0), mask.size(1), mask.size(2)}, mask.options());
  cuda::dispatch(scores.scalar_type(), [&]<class T, class A>(cuda::Types<T, A>) {
    cuda::normalised_weights_backward(arguments<T, A>(scores, mask, denominator, eps), cuda::data<const T>(grad),
                                      cuda::data<T>(grad_scores), cuda::data<A>(sums), parts,
                                      c10::cuda::getCurrentCUDAStream());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {grad_scores, parts == 1 ? sums.squeeze(0) : sums.sum(0)};
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CUDA, m) {
  m.impl("normalised_weights", forward_cuda);
  m.impl("normalised_weights_backward", backward_cuda);
}

}  // namespace topomask::ops::normalised_weights

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "core/cuda/dispatch.h"
#include "ops/walk_features/cuda_kernel.h"
#include "ops/walk_features/triples.h"

namespace topomask::ops::walk_features {

namespace {

using at::Tensor;

template <class T>
cuda::FeatureArgs<T> feature_args(const TripleTensors& triples, int64_t heads, int64_t terms, double scale) {
  return {.offsets = triples.offsets.const_data_ptr<int64_t>(),
          .hops = triples.hops.const_data_ptr<int16_t>(),
          .loads = triples.loads.const_data_ptr<T>(),
          .entries = triples.entries(),
          .heads = heads,
          .terms = static_cast<int>(terms),
          .scale = static_cast<T>(scale)};
}

Tensor walk_features_cuda(const Tensor& f, const Tensor& hops, const Tensor& loads, const Tensor& feature_offsets,
                          double scale) {
  const TripleTensors triples("walk_features", f, "f", hops, loads, feature_offsets);
  const c10::cuda::CUDAGuard guard(f.device());
  const Tensor functions = f.contiguous(), values = at::empty({f.size(0), triples.entries()}, f.options());
  cuda::with_real(f.scalar_type(), [&]<class T>(T) {
    cuda::walk_features(feature_args<T>(triples, f.size(0), f.size(1), scale), functions.const_data_ptr<T>(),
                        values.mutable_data_ptr<T>(), c10::cuda::getCurrentCUDAStream());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return values;
}

Tensor walk_features_backward_cuda(const Tensor& grad, const Tensor& hops, const Tensor& loads,
                                   const Tensor& feature_offsets, int64_t terms, double scale) {
  const TripleTensors triples("walk_features_backward", grad, "grad", hops, loads, feature_offsets);
  const c10::cuda::CUDAGuard guard(grad.device());
  const Tensor plain = grad.contiguous();
  const Tensor partial =
      at::empty({grad.size(0), terms, cuda::gradient_blocks(triples.entries())}, grad.options().dtype(at::kDouble));
  cuda::with_real(grad.scalar_type(), [&]<class T>(T) {
    cuda::walk_features_backward(feature_args<T>(triples, grad.size(0), terms, scale), plain.const_data_ptr<T>(),
                                 partial.mutable_data_ptr<double>(), c10::cuda::getCurrentCUDAStream());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return partial.sum(-1).to(grad.scalar_type());
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CUDA, m) {
  m.impl("walk_features", walk_features_cuda);
  m.impl("walk_features_backward", walk_features_backward_cuda);
}

}  // namespace topomask::ops::walk_features

#pragma once

#include <type_traits>

#include "ops/cuda/slice_ranges.h"
#include "ops/fused_attention/cuda_kernel.h"

// Which kernel a call takes: the compile-time numbers from the arguments.

namespace topomask::cuda {

template <auto kValue>
using Fixed = std::integral_constant<decltype(kValue), kValue>;

/// The passes of cuda_kernel.h for rows of 65 to 128 values.
template <class T>
cudaError_t wide_forward(const FusedArgs<T>& a, const FusedRows<T>& out, cudaStream_t stream);
template <class T>
cudaError_t wide_query_gradient(const FusedArgs<T>& a, const FusedGradArgs<T>& g, const FusedRows<T>& grad_q,
                                cudaStream_t stream);
template <class T>
cudaError_t wide_key_gradients(const FusedArgs<T>& a, const FusedGradArgs<T>& g, const FusedRows<T>& grad_k,
                               const FusedRows<T>& grad_v, cudaStream_t stream);
template <class T>
cudaError_t wide_mask_gradient(const FusedArgs<T>& a, const FusedGradArgs<T>& g, const FusedGroups& groups, float* sums,
                               cudaStream_t stream);

template <class F>
cudaError_t with_kind(TileKind kind, const F& f) {
  switch (kind) {
    case TileKind::ones:
      return f(Fixed<TileKind::ones>{});
    case TileKind::causal:
      return f(Fixed<TileKind::causal>{});
    case TileKind::offsets:
      return f(Fixed<TileKind::offsets>{});
    case TileKind::matrix:
      return f(Fixed<TileKind::matrix>{});
    case TileKind::places:
      return f(Fixed<TileKind::places>{});
    case TileKind::hamming:
      return f(Fixed<TileKind::hamming>{});
    case TileKind::factors:
      break;
  }
  return cudaErrorInvalidValue;
}

template <class F>
cudaError_t with_weighting(Weighting weighting, const F& f) {
  if (weighting == Weighting::kernel) return f(Fixed<Weighting::kernel>{});
  if (weighting == Weighting::additive) return f(Fixed<Weighting::additive>{});
  return f(Fixed<Weighting::multiplicative>{});
}

template <class T, class F>
cudaError_t with_choice(const FusedArgs<T>& a, const F& f) {
  return with_kind(a.mask.kind, [&](auto kind) {
    return with_weighting(a.weighting, [&](auto weighting) { return f(kind, weighting); });
  });
}

/// One launch for every kMostSlices slices, which lie along y; any number of them is taken.
template <class Kernel, class T, class... Args>
cudaError_t launch_fused(Kernel* kernel, dim3 grid, int threads, int bytes, cudaStream_t stream, FusedArgs<T> a,
                         const Args&... args) {
  cudaError_t status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  for_slice_ranges(grid.y, [&](int64_t first, unsigned count) {
    if (status != cudaSuccess) return;
    a.first_slice = (int)first;
    kernel<<<dim3(grid.x, count, grid.z), threads, bytes, stream>>>(a, args...);
    status = cudaGetLastError();
  });
  return status;
}

template <class T>
dim3 fused_grid(const FusedArgs<T>& a, int held) {
  return dim3((unsigned)((a.mask.nodes + held - 1) / held), (unsigned)(a.batch * a.heads));
}

}  // namespace topomask::cuda

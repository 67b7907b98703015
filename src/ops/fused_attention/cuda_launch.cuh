#pragma once

#include <type_traits>

#include "ops/fused_attention/cuda_mask_gradient.cuh"

// Which kernel a call takes: the compile-time numbers from the arguments.

namespace topomask::cuda {

template <auto kValue>
using Fixed = std::integral_constant<decltype(kValue), kValue>;

/// f(kM, kD): widths of tiles that hold rows of these widths.
template <class F>
cudaError_t with_widths(int features, int value_dim, const F& f) {
  if (features <= 64 && value_dim <= 64) return f(Fixed<64>{}, Fixed<64>{});
  return f(Fixed<128>{}, Fixed<128>{});
}

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
  return with_widths(a.q.width, a.v.width, [&](auto m, auto d) {
    return with_kind(a.mask.kind, [&](auto kind) {
      return with_weighting(a.weighting, [&](auto weighting) { return f(m, d, kind, weighting); });
    });
  });
}

template <class Kernel, class... Args>
cudaError_t launch_fused(Kernel* kernel, dim3 grid, int threads, int bytes, cudaStream_t stream, const Args&... args) {
  const cudaError_t allowed = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (allowed != cudaSuccess) return allowed;
  kernel<<<grid, threads, bytes, stream>>>(args...);
  return cudaGetLastError();
}

template <class T>
dim3 fused_grid(const FusedArgs<T>& a, int held) {
  return dim3((unsigned)((a.mask.nodes + held - 1) / held), (unsigned)(a.batch * a.heads));
}

}  // namespace topomask::cuda

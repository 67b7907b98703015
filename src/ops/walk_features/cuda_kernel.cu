#include "ops/cuda/slice_ranges.h"
#include "ops/walk_features/cuda_kernel.h"

namespace topomask::cuda {

namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void features_kernel(const FeatureArgs<T> a, const T* f, T* values) {
  const int64_t p = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (p >= a.entries) return;
  const T* own = f + blockIdx.y * a.terms;
  T sum = 0;
  for (int64_t q = a.offsets[p]; q < a.offsets[p + 1]; ++q) {
    const int hop = a.hops[q];
    if (hop < a.terms) sum += own[hop] * a.loads[q];
  }
  values[blockIdx.y * a.entries + p] = a.scale * sum;
}

constexpr int kMostTerms = 4096;  // that a block sums in shared memory

/// Sums of a block in shared memory, then one addition to each of the result; of the longest walks there at once.
template <class T>
__global__ void features_backward_kernel(const FeatureArgs<T> a, const T* grad, double* grad_f) {
  extern __shared__ double shared[];
  const bool apart = a.terms <= kMostTerms;
  double* sums = apart ? shared : grad_f + blockIdx.y * a.terms;
  for (int t = threadIdx.x; apart && t < a.terms; t += kThreads) sums[t] = 0;
  __syncthreads();
  const T* own = grad + blockIdx.y * a.entries;
  for (int64_t p = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; p < a.entries;
       p += static_cast<int64_t>(gridDim.x) * kThreads) {
    const double here = static_cast<double>(a.scale) * own[p];
    for (int64_t q = a.offsets[p]; q < a.offsets[p + 1]; ++q) {
      const int hop = a.hops[q];
      if (hop < a.terms) atomicAdd(sums + hop, here * a.loads[q]);
    }
  }
  __syncthreads();
  for (int t = threadIdx.x; apart && t < a.terms; t += kThreads) {
    atomicAdd(grad_f + blockIdx.y * a.terms + t, sums[t]);
  }
}

}  // namespace

template <class T>
void walk_features(const FeatureArgs<T>& args, const T* f, T* values, cudaStream_t stream) {
  if (args.entries == 0 || args.heads == 0) return;
  const auto blocks = static_cast<unsigned>((args.entries + kThreads - 1) / kThreads);
  for_slice_ranges(args.heads, [&](int64_t head, unsigned count) {
    features_kernel<T>
        <<<dim3(blocks, count), kThreads, 0, stream>>>(args, f + head * args.terms, values + head * args.entries);
  });
}

template <class T>
void walk_features_backward(const FeatureArgs<T>& args, const T* grad, double* grad_f, cudaStream_t stream) {
  if (args.entries == 0 || args.heads == 0 || args.terms == 0) return;
  constexpr int64_t kMostBlocks = 1056;
  const int64_t blocks = (args.entries + kThreads - 1) / kThreads;
  const size_t shared = args.terms <= kMostTerms ? static_cast<size_t>(args.terms) * sizeof(double) : 0;
  for_slice_ranges(args.heads, [&](int64_t head, unsigned count) {
    const dim3 grid(static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks), count);
    features_backward_kernel<T>
        <<<grid, kThreads, shared, stream>>>(args, grad + head * args.entries, grad_f + head * args.terms);
  });
}

#define TOPOMASK_WALK_FEATURES(T)                                                 \
  template void walk_features(const FeatureArgs<T>&, const T*, T*, cudaStream_t); \
  template void walk_features_backward(const FeatureArgs<T>&, const T*, double*, cudaStream_t);
TOPOMASK_WALK_FEATURES(float)
TOPOMASK_WALK_FEATURES(double)

}  // namespace topomask::cuda

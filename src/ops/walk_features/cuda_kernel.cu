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

constexpr int kSumThreads = 128, kTermsAtOnce = 16;  // of a block of the gradient

/// Every thread sums its own triples for a range of terms, in shared memory, and the block adds its threads in the
/// order of a tree: nothing depends on which comes first. To partial [heads, terms, blocks].
template <class T>
__global__ void __launch_bounds__(kSumThreads)
    features_backward_kernel(const FeatureArgs<T> a, const T* grad, double* partial) {
  __shared__ double sums[kTermsAtOnce][kSumThreads];
  const int thread = static_cast<int>(threadIdx.x), first = static_cast<int>(blockIdx.z) * kTermsAtOnce;
  const int terms = min(kTermsAtOnce, a.terms - first);
  for (int t = 0; t < terms; ++t) sums[t][thread] = 0;
  const T* own = grad + blockIdx.y * a.entries;
  for (int64_t p = static_cast<int64_t>(blockIdx.x) * kSumThreads + thread; p < a.entries;
       p += static_cast<int64_t>(gridDim.x) * kSumThreads) {
    const double here = static_cast<double>(a.scale) * own[p];
    for (int64_t q = a.offsets[p]; q < a.offsets[p + 1]; ++q) {
      const int term = a.hops[q] - first;
      if (term >= 0 && term < terms) sums[term][thread] += here * a.loads[q];
    }
  }
  for (int step = kSumThreads / 2; step > 0; step /= 2) {
    __syncthreads();
    for (int t = 0; t < terms && thread < step; ++t) sums[t][thread] += sums[t][thread + step];
  }
  if (thread == 0) {
    double* to = partial + (static_cast<int64_t>(blockIdx.y) * a.terms + first) * gridDim.x + blockIdx.x;
    for (int t = 0; t < terms; ++t) to[static_cast<int64_t>(t) * gridDim.x] = sums[t][0];
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

int64_t gradient_blocks(int64_t entries) {
  constexpr int64_t kMostBlocks = 1584;  // twelve for each multiprocessor of the largest GPUs
  const int64_t blocks = (entries + kSumThreads - 1) / kSumThreads;
  return blocks < kMostBlocks ? blocks : kMostBlocks;
}

template <class T>
void walk_features_backward(const FeatureArgs<T>& args, const T* grad, double* partial, cudaStream_t stream) {
  if (args.entries == 0 || args.heads == 0 || args.terms == 0) return;
  const int64_t blocks = gradient_blocks(args.entries);
  for_slice_ranges(args.heads, [&](int64_t head, unsigned count) {
    const dim3 grid(static_cast<unsigned>(blocks), count,
                    static_cast<unsigned>((args.terms + kTermsAtOnce - 1) / kTermsAtOnce));
    features_backward_kernel<T>
        <<<grid, kSumThreads, 0, stream>>>(args, grad + head * args.entries, partial + head * args.terms * blocks);
  });
}

#define TOPOMASK_WALK_FEATURES(T)                                                 \
  template void walk_features(const FeatureArgs<T>&, const T*, T*, cudaStream_t); \
  template void walk_features_backward(const FeatureArgs<T>&, const T*, double*, cudaStream_t);
TOPOMASK_WALK_FEATURES(float)
TOPOMASK_WALK_FEATURES(double)

}  // namespace topomask::cuda

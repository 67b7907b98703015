#include <cmath>

#include "graph/knn_cuda.h"

namespace topomask::cuda {

namespace {

constexpr int kThreads = 128;

/// The k nearest so far, nearest first; kCapacity ≥ k is known when compiling, so that they stay in registers.
template <int kCapacity>
struct Nearest {
  double distance[kCapacity];
  int32_t index[kCapacity];

  __device__ __forceinline__ Nearest() {
#pragma unroll
    for (int i = 0; i < kCapacity; ++i) {
      distance[i] = INFINITY;
      index[i] = -1;
    }
  }
  /// Candidates come by ascending index: an equal one stays behind.
  __device__ __forceinline__ void offer(double d, int32_t j) {
    if (!(d < distance[kCapacity - 1])) return;
#pragma unroll
    for (int i = kCapacity - 1; i > 0; --i) {
      const bool before = d < distance[i - 1], here = !before && d < distance[i];
      distance[i] = before ? distance[i - 1] : here ? d : distance[i];
      index[i] = before ? index[i - 1] : here ? j : index[i];
    }
    if (d < distance[0]) {
      distance[0] = d;
      index[0] = j;
    }
  }
};

/// A cheap no for most candidates: the distance in float32 is right to a few parts in 10⁷, and one that is farther by
/// more than that cannot be nearer. Points in float64 are told apart by less than float32 can see.
template <class T>
__device__ __forceinline__ bool is_farther(const T* a, const T* b, int dims, double limit) {
  if constexpr (sizeof(T) == sizeof(double)) return false;
  float distance = 0;
#pragma unroll
  for (int d = 0; d < dims; ++d) {
    const float step = static_cast<float>(a[d]) - static_cast<float>(b[d]);
    distance += step * step;
  }
  return distance > 1.00001f * static_cast<float>(limit);
}

/// A thread takes a point and a part of the candidates, which pass through shared memory.
template <class T, int kCapacity, int kDims>
__global__ void __launch_bounds__(kThreads) part_kernel(const KnnArgs<T> a) {
  extern __shared__ char shared[];
  T* tile = reinterpret_cast<T*>(shared);  // [kThreads, dims]
  const int dims = kDims > 0 ? kDims : a.dims;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  T own[kDims > 0 ? kDims : kMostDims];
  for (int d = 0; d < dims; ++d) own[d] = i < a.count ? a.points[i * dims + d] : T(0);
  const int64_t share = (a.count + a.parts - 1) / a.parts;
  const int64_t begin = blockIdx.y * share, end = begin + share < a.count ? begin + share : a.count;
  Nearest<kCapacity> nearest;
  for (int64_t first = begin; first < end; first += kThreads) {
    const auto count = static_cast<int>(end - first < kThreads ? end - first : kThreads);
    __syncthreads();
    for (int e = threadIdx.x; e < count * dims; e += kThreads) tile[e] = a.points[first * dims + e];
    __syncthreads();
#pragma unroll 4
    for (int c = 0; c < count; ++c) {
      if (is_farther<T>(own, tile + c * dims, dims, nearest.distance[kCapacity - 1])) continue;
      double distance = 0;
#pragma unroll
      for (int d = 0; d < dims; ++d) {
        const double step = __dsub_rn(static_cast<double>(own[d]), static_cast<double>(tile[c * dims + d]));
        distance = __dadd_rn(distance, __dmul_rn(step, step));
      }
      if (first + c != i) nearest.offer(distance, static_cast<int32_t>(first + c));
    }
  }
  if (i >= a.count) return;
#pragma unroll
  for (int n = 0; n < kCapacity; ++n) {
    if (n >= a.k) break;
    const int64_t place = (static_cast<int64_t>(blockIdx.y) * a.k + n) * a.count + i;
    a.part_distance[place] = nearest.distance[n];
    a.part_index[place] = nearest.index[n];
  }
}

template <class T, int kCapacity>
__global__ void __launch_bounds__(kThreads) merge_kernel(const KnnArgs<T> a) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= a.count) return;
  Nearest<kCapacity> nearest;
  for (int64_t p = 0; p < static_cast<int64_t>(a.parts) * a.k; ++p) {
    const int32_t index = a.part_index[p * a.count + i];
    if (index >= 0) nearest.offer(a.part_distance[p * a.count + i], index);
  }
#pragma unroll
  for (int n = 0; n < kCapacity; ++n) {
    if (n < a.k) a.nearest[i * a.k + n] = nearest.index[n];
  }
}

template <class T, int kCapacity>
void run(const KnnArgs<T>& args, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((args.count + kThreads - 1) / kThreads);
  const dim3 grid(blocks, static_cast<unsigned>(args.parts));
  const size_t shared = static_cast<size_t>(kThreads) * args.dims * sizeof(T);
  switch (args.dims) {
    case 2:
      part_kernel<T, kCapacity, 2><<<grid, kThreads, shared, stream>>>(args);
      break;
    case 3:
      part_kernel<T, kCapacity, 3><<<grid, kThreads, shared, stream>>>(args);
      break;
    default:
      part_kernel<T, kCapacity, 0><<<grid, kThreads, shared, stream>>>(args);
  }
  merge_kernel<T, kCapacity><<<blocks, kThreads, 0, stream>>>(args);
}

}  // namespace

template <class T>
void knn(const KnnArgs<T>& args, cudaStream_t stream) {
  if (args.count == 0 || args.k == 0) return;
  if (args.k <= 4) return run<T, 4>(args, stream);
  if (args.k <= 8) return run<T, 8>(args, stream);
  run<T, kMostNeighbours>(args, stream);
}

template void knn(const KnnArgs<float>&, cudaStream_t);
template void knn(const KnnArgs<double>&, cudaStream_t);

}  // namespace topomask::cuda

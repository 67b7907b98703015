#include <cmath>

#include "ops/cuda/slice_ranges.h"
#include "ops/nearest_neighbours/cuda_kernel.h"

namespace topomask::cuda {

namespace {

constexpr int kThreads = 128;

/// The k nearest so far, nearest first; kCapacity ≥ k is known when compiling, so that they stay in registers.
template <class Distance, int kCapacity>
struct Nearest {
  Distance distance[kCapacity];
  int32_t index[kCapacity];

  __device__ __forceinline__ Nearest() {
#pragma unroll
    for (int i = 0; i < kCapacity; ++i) {
      distance[i] = INFINITY;
      index[i] = -1;
    }
  }
  /// Candidates come by ascending index: one at the same distance goes after the earlier ones.
  __device__ __forceinline__ void offer(Distance d, int32_t j) {
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

/// Rejects most candidates cheaply: a distance in float32 is right to a few parts in 10⁷, or to nothing where it
/// underflows, and one beyond this cannot be nearer than `limit`. Converted only when the limit changes.
__device__ __forceinline__ float safely_above(double limit) {
  return 1.00001f * static_cast<float>(limit) + 1e-36f;
}

template <class T>
__device__ __forceinline__ float rough_distance(const T* a, const T* b, int dims) {
  float distance = 0;
#pragma unroll
  for (int d = 0; d < dims; ++d) {
    const float step = static_cast<float>(a[d]) - static_cast<float>(b[d]);
    distance += step * step;
  }
  return distance;
}

/// One rounding at a time, as on the CPU.
template <class T>
__device__ __forceinline__ double exact_distance(const T* a, const T* b, int dims) {
  double distance = 0;
#pragma unroll
  for (int d = 0; d < dims; ++d) {
    const double step = __dsub_rn(static_cast<double>(a[d]), static_cast<double>(b[d]));
    distance = __dadd_rn(distance, __dmul_rn(step, step));
  }
  return distance;
}

/// A thread takes a query and a part of the candidates, which pass through shared memory and are looked at four at a
/// time: one branch, and a few wide loads, for all four.
template <class T, int kCapacity, int kDims>
__global__ void __launch_bounds__(kThreads) part_kernel(const KnnArgs<T> a) {
  // Points in float64 are told apart by less than float32 can see.
  constexpr bool kFiltered = sizeof(T) < sizeof(double);
  constexpr int kTogether = 4;
  static_assert(kThreads % kTogether == 0);
  extern __shared__ __align__(16) char shared[];
  T* tile = reinterpret_cast<T*>(shared);  // [kThreads, dims]
  const int dims = kDims > 0 ? kDims : a.dims;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t cloud = blockIdx.z;
  const T* points = a.points + cloud * a.count * dims;
  const T* queries = a.queries + cloud * a.queried * dims;
  T own[kDims > 0 ? kDims : ops::nearest_neighbours::kMostCudaDims];
  for (int d = 0; d < dims; ++d) own[d] = i < a.queried ? queries[i * dims + d] : T(0);
  const int64_t share = (a.count + a.parts - 1) / a.parts;
  const int64_t begin = blockIdx.y * share, end = begin + share < a.count ? begin + share : a.count;
  const auto load = [&](int64_t first, int64_t last) {
    __syncthreads();
    for (int e = threadIdx.x; e < kThreads * dims; e += kThreads) {
      tile[e] = first * dims + e < last * dims ? points[first * dims + e] : T(NAN);  // never nearer
    }
    __syncthreads();
  };
  // The k nearest are no farther than the k nearest among a few: the points of this block, or the first ones of the
  // cloud. Without a first limit the filter would let most candidates pass to some thread of a warp, until the first
  // few hundred have been seen.
  float limit = INFINITY;
  if constexpr (kFiltered) {
    load(a.exclude_self ? i - threadIdx.x : 0, a.count);
    Nearest<float, kCapacity> around;
    for (int c = 0; c < kThreads; ++c) {
      if (!a.exclude_self || c != threadIdx.x) around.offer(rough_distance<T>(own, tile + c * dims, dims), c);
    }
    limit = safely_above(around.distance[kCapacity - 1]);
  }
  Nearest<double, kCapacity> nearest;
  for (int64_t first = begin; first < end; first += kThreads) {
    const auto count = static_cast<int>(end - first < kThreads ? end - first : kThreads);
    load(first, end);
    for (int c = 0; c < count; c += kTogether) {
      const T* candidates = tile + c * dims;
      float rough[kTogether];
      if constexpr (kFiltered) {
        __align__(16) T held[kTogether * (kDims > 0 ? kDims : 1)];
        if constexpr (kDims > 0) {
#pragma unroll
          for (int e = 0; e < kDims; ++e) {
            reinterpret_cast<float4*>(held)[e] = reinterpret_cast<const float4*>(candidates)[e];
          }
        }
        const T* from = kDims > 0 ? held : candidates;
        float least = INFINITY;
#pragma unroll
        for (int g = 0; g < kTogether; ++g) {
          rough[g] = rough_distance<T>(own, from + g * dims, dims);
          least = fminf(least, rough[g]);
        }
        if (least > limit) continue;
      }
#pragma unroll
      for (int g = 0; g < kTogether; ++g) {
        if (kFiltered && rough[g] > limit) continue;
        if (a.exclude_self && first + c + g == i) continue;
        nearest.offer(exact_distance<T>(own, candidates + g * dims, dims), static_cast<int32_t>(first + c + g));
        if (kFiltered) limit = fminf(limit, safely_above(nearest.distance[kCapacity - 1]));
      }
    }
  }
  if (i >= a.queried) return;
#pragma unroll
  for (int n = 0; n < kCapacity; ++n) {
    if (n >= a.k) break;
    const int64_t place = ((cloud * a.parts + blockIdx.y) * a.k + n) * a.queried + i;
    a.part_distance[place] = nearest.distance[n];
    a.part_index[place] = nearest.index[n];
  }
}

template <class T, int kCapacity>
__global__ void __launch_bounds__(kThreads) merge_kernel(const KnnArgs<T> a) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= a.queried) return;
  const int64_t cloud = blockIdx.y, listed = static_cast<int64_t>(a.parts) * a.k;
  Nearest<double, kCapacity> nearest;
  for (int64_t p = cloud * listed; p < (cloud + 1) * listed; ++p) {
    const int32_t index = a.part_index[p * a.queried + i];
    if (index >= 0) nearest.offer(a.part_distance[p * a.queried + i], index);
  }
#pragma unroll
  for (int n = 0; n < kCapacity; ++n) {
    if (n < a.k) a.nearest[(cloud * a.queried + i) * a.k + n] = nearest.index[n];
  }
}

template <class T, int kCapacity>
void run_clouds(const KnnArgs<T>& args, unsigned clouds, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((args.queried + kThreads - 1) / kThreads);
  const dim3 grid(blocks, static_cast<unsigned>(args.parts), clouds);
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
  merge_kernel<T, kCapacity><<<dim3(blocks, clouds), kThreads, 0, stream>>>(args);
}

template <class T, int kCapacity>
void run(const KnnArgs<T>& args, cudaStream_t stream) {
  for_slice_ranges(args.clouds, [&](int64_t cloud, unsigned count) {
    KnnArgs<T> some = args;
    some.points += cloud * args.count * args.dims;
    some.queries += cloud * args.queried * args.dims;
    some.part_distance += cloud * args.parts * args.k * args.queried;
    some.part_index += cloud * args.parts * args.k * args.queried;
    some.nearest += cloud * args.queried * args.k;
    run_clouds<T, kCapacity>(some, count, stream);
  });
}

}  // namespace

template <class T>
void knn(const KnnArgs<T>& args, cudaStream_t stream) {
  if (args.queried == 0 || args.clouds == 0 || args.k == 0) return;
  if (args.k <= 3) return run<T, 3>(args, stream);
  if (args.k <= 4) return run<T, 4>(args, stream);
  if (args.k <= 8) return run<T, 8>(args, stream);
  if (args.k <= 16) return run<T, 16>(args, stream);
  run<T, ops::nearest_neighbours::kMostCudaNeighbours>(args, stream);
}

template void knn(const KnnArgs<float>&, cudaStream_t);
template void knn(const KnnArgs<double>&, cudaStream_t);

}  // namespace topomask::cuda

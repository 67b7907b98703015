#pragma once

#include <cstdint>

#include "core/cuda/long_rows.h"
#include "core/cuda/row_group.cuh"

namespace topomask::cuda {

inline constexpr int kLongThreads = 512;  ///< that share a long row

/// f(row) for the long rows among those that this block looks at, a row a thread; all threads take each together. A
/// block looks at some rows here and some there, so that long ones that are neighbours are not all its own.
template <class F>
__device__ __forceinline__ void for_long_rows(const int64_t* offsets, int64_t rows, int longest_short, const F& f) {
  constexpr int kNeighbours = 32;
  __shared__ bool found[kLongThreads];
  const auto row_of = [&](int thread) {
    const int64_t neighbours = static_cast<int64_t>(thread / kNeighbours) * gridDim.x + blockIdx.x;
    return neighbours * kNeighbours + thread % kNeighbours;
  };
  const int64_t row = row_of(threadIdx.x);
  const bool is_long = row < rows && offsets[row + 1] - offsets[row] > longest_short;
  if (__syncthreads_or(is_long) == 0) return;
  found[threadIdx.x] = is_long;
  __syncthreads();
  for (int thread = 0; thread < kLongThreads; ++thread) {
    if (found[thread]) f(row_of(thread));
  }
}

/// A row that a group has to itself.
template <class Group>
struct Alone {
  using A = typename Group::A;
  __device__ __forceinline__ A max(A x) const { return x; }
  __device__ __forceinline__ A sum(A x) const { return x; }
  __device__ __forceinline__ void sum(typename Group::Sum&) const {}
  __device__ __forceinline__ bool stores() const { return true; }
};

/// A long row that all groups of a block share. The first of them gets the sums, made in the order of the groups.
template <class Group, int kLanes>
struct Together {
  using A = typename Group::A;
  static constexpr int kGroups = kLongThreads / kLanes;
  A* parts;  ///< [kLongThreads] in shared memory

  __device__ __forceinline__ A max(A x) const {
    share(x);
    for (int g = 0; g < kGroups; ++g) x = fmax(x, parts[g * kLanes]);
    return x;
  }
  __device__ __forceinline__ A sum(A x) const {
    share(x);
    A total = 0;
    for (int g = 0; g < kGroups && stores(); ++g) total += parts[g * kLanes + threadIdx.x];
    return total;
  }
  __device__ __forceinline__ void sum(typename Group::Sum& total) const {
#pragma unroll
    for (int i = 0; i < Group::kHeld; ++i) total.x[i] = sum(total.x[i]);
  }
  __device__ __forceinline__ bool stores() const {
    return threadIdx.x < kLanes;
  }

 private:
  __device__ __forceinline__ void share(A x) const {
    __syncthreads();
    parts[threadIdx.x] = x;
    __syncthreads();
  }
};

/// f(place, together) for every long row of every slice, of which a group has a part.
template <class Group, int kLanes, class F>
__device__ __forceinline__ void for_long_places(const int64_t* offsets, int64_t rows, int longest_short, int64_t slices,
                                                const F& f) {
  __shared__ typename Group::A parts[kLongThreads];
  for_long_rows(offsets, rows, longest_short, [&](int64_t row) {
    for (int64_t slice = blockIdx.y; slice < slices; slice += gridDim.y) {
      f(Place(offsets, row, slice, threadIdx.x / kLanes, kLongThreads / kLanes), Together<Group, kLanes>{parts});
    }
  });
}

/// Blocks that look at so many rows, for all slices.
inline dim3 long_row_blocks(int64_t rows, int64_t slices) {
  constexpr int64_t kMostSlices = 65535;
  return dim3(static_cast<unsigned>((rows + kLongThreads - 1) / kLongThreads),
              static_cast<unsigned>(slices < kMostSlices ? slices : kMostSlices));
}

}  // namespace topomask::cuda

#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

// Products with f(depth + depth), low rank, on the GPU: one level of centroids at a time, for all slices of x
// [slices, N, C] at once. Kernels over raw pointers and a stream.

namespace topomask::cuda {

/// Some nodes of one group.
struct LowRankPiece {
  int64_t first, count;  ///< among the nodes of the level
  int64_t rank;          ///< of the function of the component
  int64_t group;         ///< pieces of one group follow each other
  int64_t factors;       ///< where those of the first node begin, `rank` scalars a node
};

inline constexpr int kRanks = 8;  ///< terms of f that are done at once

template <class T>
struct LowRankLevelArgs {
  const int32_t* nodes;
  const LowRankPiece* pieces;
  const int64_t* components;  ///< [components + 1]: the first piece of each
  const T* send;
  const T* receive;
  const T* x;
  T* y;
  T* sums;    ///< [slices, pieces, kRanks, C]: what each piece sends
  T* others;  ///< the same: what the other groups of its component send
  int64_t piece_count, component_count;
  int64_t size, columns, slices;
};

/// y_i += Σ_k receive_k(i) Σ_j send_k(j) x_j over the pairs of different groups of a component, for the terms
/// k = first … first+kRanks−1. What other groups send is summed separately over the groups before and after the
/// receiving one, never as a difference: growing functions lose no digits.
template <class T>
void low_rank_level(const LowRankLevelArgs<T>& args, int64_t first, cudaStream_t stream);

}  // namespace topomask::cuda

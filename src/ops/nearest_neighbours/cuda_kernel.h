#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/nearest_neighbours/limits.h"

namespace topomask::cuda {

/// The k nearest of N points to each of Q queries, in each of several clouds, all pairs compared: points [clouds, N,
/// dims], queries [clouds, Q, dims], nearest int32 [clouds, Q, k] by distance and then index. Where the queries are the
/// points, a point is not its own neighbour. Distances are made in float64, one rounding at a time, as on the CPU.
template <class T>
struct KnnArgs {
  const T* points;
  const T* queries;
  int64_t count;    ///< N
  int64_t queried;  ///< Q
  int64_t clouds;
  bool exclude_self;
  int dims;
  int k;
  int parts;              ///< the candidates are shared out among so many blocks
  double* part_distance;  ///< [clouds, parts, k, Q]
  int32_t* part_index;    ///< likewise
  int32_t* nearest;
};

template <class T>
void knn(const KnnArgs<T>& args, cudaStream_t stream);

}  // namespace topomask::cuda

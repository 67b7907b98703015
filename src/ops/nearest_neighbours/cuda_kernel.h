#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace topomask::cuda {

/// The k nearest of N points, all pairs compared: points [N, dims], nearest int32 [N, k] by distance and then index. A
/// point is not its own neighbour. Distances are made in float64, one rounding at a time, as on the CPU.
template <class T>
struct KnnArgs {
  const T* points;
  int64_t count;
  int dims;
  int k;
  int parts;              ///< the candidates are shared out among so many blocks
  double* part_distance;  ///< [parts, k, N]
  int32_t* part_index;    ///< likewise
  int32_t* nearest;
};

inline constexpr int kMostNeighbours = 32, kMostDims = 32;

template <class T>
void knn(const KnnArgs<T>& args, cudaStream_t stream);

}  // namespace topomask::cuda

#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

// Products of a sparse matrix with its transpose, sums at places found before: kernels over raw pointers and a stream.

namespace topomask::cuda {

/// Patterns of A [rows, columns], of its transpose, and of the result.
struct PlacePatterns {
  const int64_t* a_offsets;
  const int32_t* a_columns;
  const int64_t* t_offsets;
  const int32_t* t_columns;
  const int64_t* out_offsets;
  const int32_t* out_columns;
  const int64_t* out_mirror;  ///< where the value of the transposed entry is
  int64_t rows;
};

/// The bytes of the places of each row, to bytes [rows]; −1 for a row that is longer than `longest`.
void place_bytes(const PlacePatterns& patterns, int64_t longest, int64_t* bytes, cudaStream_t stream);
/// The places of row i from starts[i] on.
void write_places(const PlacePatterns& patterns, const int64_t* starts, uint8_t* places, cudaStream_t stream);

template <class T>
struct PlacedArgs {
  PlacePatterns patterns;
  const int64_t* starts;
  const uint8_t* places;
  const T* t_values;  ///< of A in the order of its transpose, [H, entries]
  const T* from;      ///< values of A, or the gradient of the result, [H, ·]
  T* to;              ///< the result, or the gradient of A, [H, ·]
  int64_t a_entries, out_entries, heads;
};

template <class T>
void placed_product(const PlacedArgs<T>& args, cudaStream_t stream);
template <class T>
void placed_gradient(const PlacedArgs<T>& args, cudaStream_t stream);

}  // namespace topomask::cuda

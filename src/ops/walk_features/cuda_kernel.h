#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

// The values of Φ̂ over a walk table on the GPU: kernels over raw pointers and a stream.

namespace topomask::cuda {

template <class T>
struct FeatureArgs {
  const int64_t* offsets;  ///< [entries + 1]: the triples of each entry
  const int16_t* hops;
  const T* loads;
  int64_t entries;
  int64_t heads;
  int terms;
  T scale;
};

/// values[h, p] = scale·Σ f[h, hop]·load over the triples of entry p; f [H, terms].
template <class T>
void walk_features(const FeatureArgs<T>& args, const T* f, T* values, cudaStream_t stream);

int64_t gradient_blocks(int64_t entries);

/// partial [H, terms, gradient_blocks(entries)], whose sums are grad_f[h, t] = scale·Σ grad[h, p]·load over the triples
/// with hop t, in double and always in the same order. Triples are read once for each sixteen terms.
template <class T>
void walk_features_backward(const FeatureArgs<T>& args, const T* grad, double* partial, cudaStream_t stream);

}  // namespace topomask::cuda

#pragma once

#include <cstdint>

namespace topomask::ops::walk_features {

/// Features of walks over one head: entry p has the triples offsets[p] … offsets[p+1]-1.
template <class T>
struct WalkFeaturesArgs {
  const int64_t* offsets;
  const int16_t* hops;
  const T* loads;
  int64_t terms;  ///< K
  T scale;
};

/// values[p] = scale·Σ f[hop]·load for entries begin … end-1. `f` has K + 1 elements, the last one 0.
template <class T>
void walk_features_entries(const WalkFeaturesArgs<T>& args, const T* f, T* values, int64_t begin, int64_t end);

/// grad_f[hop] += Σ grad[p]·load over entries begin … end-1, hops from K on in grad_f[K]. Not scaled.
template <class T>
void walk_features_backward_entries(const WalkFeaturesArgs<T>& args, const T* grad, double* grad_f, int64_t begin,
                                    int64_t end);

}  // namespace topomask::ops::walk_features

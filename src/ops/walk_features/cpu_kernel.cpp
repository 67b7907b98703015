#include "ops/walk_features/cpu_kernel.h"

#include <algorithm>

namespace topomask::ops::walk_features {
namespace {

/// The place of a hop in an array of K + 1. Unsigned: nothing a damaged table holds lies outside.
inline int64_t place(int16_t hop, int64_t terms) {
  return std::min<int64_t>(static_cast<uint16_t>(hop), terms);
}

}  // namespace

template <class T>
void walk_features_entries(const WalkFeaturesArgs<T>& args, const T* f, T* values, int64_t begin, int64_t end) {
  int64_t q = args.offsets[begin];
  for (int64_t p = begin; p < end; ++p) {
    T sum = 0;
    for (const int64_t last = args.offsets[p + 1]; q < last; ++q)
      sum += f[place(args.hops[q], args.terms)] * args.loads[q];
    values[p] = args.scale * sum;
  }
}

template <class T>
void walk_features_backward_entries(const WalkFeaturesArgs<T>& args, const T* grad, double* grad_f, int64_t begin,
                                    int64_t end) {
  int64_t q = args.offsets[begin];
  for (int64_t p = begin; p < end; ++p) {
    const double here = grad[p];
    for (const int64_t last = args.offsets[p + 1]; q < last; ++q) {
      grad_f[place(args.hops[q], args.terms)] += here * args.loads[q];
    }
  }
}

template void walk_features_entries(const WalkFeaturesArgs<float>&, const float*, float*, int64_t, int64_t);
template void walk_features_entries(const WalkFeaturesArgs<double>&, const double*, double*, int64_t, int64_t);
template void walk_features_backward_entries(const WalkFeaturesArgs<float>&, const float*, double*, int64_t, int64_t);
template void walk_features_backward_entries(const WalkFeaturesArgs<double>&, const double*, double*, int64_t, int64_t);

}  // namespace topomask::ops::walk_features

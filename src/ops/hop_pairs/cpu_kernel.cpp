#include "ops/hop_pairs/cpu_kernel.h"

namespace topomask::ops::hop_pairs {

namespace {

template <class T, int kHeads>
void values_of(const ListArgs<T>& args, const T* g, T* values, int64_t begin, int64_t end) {
  for (int64_t p = begin; p < end; ++p) {
    T sum[kHeads] = {};
    for (int32_t q = args.offsets[p]; q < args.offsets[p + 1]; ++q) {
      const T* own = g + args.pairs[q] * kHeadBlock;
      for (int h = 0; h < kHeads; ++h) sum[h] += own[h] * args.sums[q];
    }
    for (int h = 0; h < kHeads; ++h) values[h * args.stride + p] = sum[h];
  }
}

template <class T, int kHeads>
void gradients_of(const ListArgs<T>& args, const T* grad, double* total, int64_t begin, int64_t end) {
  for (int64_t p = begin; p < end; ++p) {
    double here[kHeads];
    for (int h = 0; h < kHeads; ++h) here[h] = grad[h * args.stride + p];
    for (int32_t q = args.offsets[p]; q < args.offsets[p + 1]; ++q) {
      double* own = total + args.pairs[q] * kHeadBlock;
      for (int h = 0; h < kHeads; ++h) own[h] += here[h] * args.sums[q];
    }
  }
}

}  // namespace

template <class T>
void pair_values(const ListArgs<T>& args, const T* g, T* values, int64_t begin, int64_t end) {
  switch (args.heads) {
    case 1:
      return values_of<T, 1>(args, g, values, begin, end);
    case 2:
      return values_of<T, 2>(args, g, values, begin, end);
    case 3:
      return values_of<T, 3>(args, g, values, begin, end);
    default:
      return values_of<T, 4>(args, g, values, begin, end);
  }
}

template <class T>
void pair_gradients(const ListArgs<T>& args, const T* grad, double* total, int64_t begin, int64_t end) {
  switch (args.heads) {
    case 1:
      return gradients_of<T, 1>(args, grad, total, begin, end);
    case 2:
      return gradients_of<T, 2>(args, grad, total, begin, end);
    case 3:
      return gradients_of<T, 3>(args, grad, total, begin, end);
    default:
      return gradients_of<T, 4>(args, grad, total, begin, end);
  }
}

template void pair_values(const ListArgs<float>&, const float*, float*, int64_t, int64_t);
template void pair_values(const ListArgs<double>&, const double*, double*, int64_t, int64_t);
template void pair_gradients(const ListArgs<float>&, const float*, double*, int64_t, int64_t);
template void pair_gradients(const ListArgs<double>&, const double*, double*, int64_t, int64_t);

}  // namespace topomask::ops::hop_pairs

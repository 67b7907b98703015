#include "ops/block_rows_kernel.h"

#include <cmath>

#include "core/simd.h"

namespace topomask::ops::block_rows {

namespace {

template <class S>
TOPOMASK_INLINE typename S::Scalar lane_sum(typename S::Vector v) {
  typename S::Scalar sum = 0;
  for (int l = 0; l < S::kLanes; ++l) sum += v[l];
  return sum;
}

template <class S>
TOPOMASK_INLINE void norm_rows_body(const NormArgs<typename S::Scalar>& a, int64_t begin, int64_t end) {
  using T = typename S::Scalar;
  using V = typename S::Vector;
  for (int64_t i = begin; i < end; ++i) {
    const T* x = a.x + i * a.width;
    T* n = a.n + i * a.width;
    V sum{};
    for (int64_t c = 0; c < a.width; c += S::kLanes) sum += S::load(x + c);
    const T mean = lane_sum<S>(sum) / static_cast<T>(a.width);
    V square{};
    for (int64_t c = 0; c < a.width; c += S::kLanes) {
      const V from = S::load(x + c) - mean;
      square += from * from;
    }
    const T deviation = 1 / std::sqrt(lane_sum<S>(square) / static_cast<T>(a.width) + a.eps);
    for (int64_t c = 0; c < a.width; c += S::kLanes) {
      S::store(n + c, (S::load(x + c) - mean) * deviation * S::load(a.weight + c) + S::load(a.bias + c));
    }
    a.mean[i] = mean;
    a.deviation[i] = deviation;
  }
}

template <class S>
TOPOMASK_INLINE void norm_backward_rows_body(const NormBackwardArgs<typename S::Scalar>& a, int64_t begin,
                                             int64_t end) {
  using T = typename S::Scalar;
  using V = typename S::Vector;
  for (int64_t i = begin; i < end; ++i) {
    const T *dn = a.dn + i * a.width, *x = a.x + i * a.width;
    const T mean = a.mean[i], deviation = a.deviation[i];
    V slopes{}, along{};
    for (int64_t c = 0; c < a.width; c += S::kLanes) {
      const V g = S::load(dn + c), unit = (S::load(x + c) - mean) * deviation, weighted = g * S::load(a.weight + c);
      slopes += weighted;
      along += weighted * unit;
      S::store(a.dweight + c, S::load(a.dweight + c) + g * unit);
      S::store(a.dbias + c, S::load(a.dbias + c) + g);
    }
    const T from_mean = lane_sum<S>(slopes) / static_cast<T>(a.width);
    const T from_deviation = lane_sum<S>(along) / static_cast<T>(a.width);
    T* dx = a.dx + i * a.width;
    for (int64_t c = 0; c < a.width; c += S::kLanes) {
      const V unit = (S::load(x + c) - mean) * deviation;
      V slope = (S::load(dn + c) * S::load(a.weight + c) - from_mean - unit * from_deviation) * deviation;
      if (a.also) slope += S::load(a.also + i * a.width + c);
      S::store(dx + c, slope);
    }
  }
}

template <class S>
TOPOMASK_INLINE void feature_rows_body(const HeadArgs<typename S::Scalar>& a, int64_t begin, int64_t end) {
  using V = typename S::Vector;
  for (int64_t i = begin; i < end; ++i) {
    const auto* row = a.rows + i * a.count * a.heads * a.dim;
    for (int64_t p = 0; p < a.count; ++p) {
      for (int64_t h = 0; h < a.heads; ++h) {
        auto* to = a.parts[p] + h * a.stride + i * a.dim;
        for (int64_t c = 0; c < a.dim; c += S::kLanes, row += S::kLanes) {
          const V value = S::load(row);
          S::store(to + c, a.features[p] ? (value > 0 ? value : V{}) + a.offset : value);
        }
      }
    }
  }
}

template <class S>
TOPOMASK_INLINE void gather_rows_body(const HeadArgs<typename S::Scalar>& a, int64_t begin, int64_t end) {
  using V = typename S::Vector;
  for (int64_t i = begin; i < end; ++i) {
    auto* row = a.rows + i * a.count * a.heads * a.dim;
    for (int64_t p = 0; p < a.count; ++p) {
      for (int64_t h = 0; h < a.heads; ++h) {
        const int64_t from = h * a.stride + i * a.dim;
        for (int64_t c = 0; c < a.dim; c += S::kLanes, row += S::kLanes) {
          const V value = S::load(a.parts[p] + from + c);
          S::store(row, a.features[p] ? (S::load(a.features[p] + from + c) > a.offset ? value : V{}) : value);
        }
      }
    }
  }
}

template <class S>
TOPOMASK_INLINE void sum_rows_body(const SumArgs<typename S::Scalar>& a, int64_t begin, int64_t end) {
  for (int64_t c = 0; c < a.width; c += S::kLanes) {
    typename S::Vector sum{};
    for (int64_t i = begin; i < end; ++i) sum += S::load(a.rows + i * a.width + c);
    S::store(a.sums + c, S::load(a.sums + c) + sum);
  }
}

}  // namespace

TOPOMASK_SIMD_KERNEL(norm_rows, NormArgs)
TOPOMASK_SIMD_KERNEL(norm_backward_rows, NormBackwardArgs)
TOPOMASK_SIMD_KERNEL(feature_rows, HeadArgs)
TOPOMASK_SIMD_KERNEL(gather_rows, HeadArgs)
TOPOMASK_SIMD_KERNEL(sum_rows, SumArgs)

}  // namespace topomask::ops::block_rows

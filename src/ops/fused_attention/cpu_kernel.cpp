#include "ops/fused_attention/cpu_kernel.h"

#include <limits>

#include "core/largest_exponent.h"
#include "core/simd.h"
#include "core/simd_exp.h"

namespace topomask::ops::fused_attention {
namespace {

template <class S>
TOPOMASK_INLINE typename S::Scalar lanes_sum(typename S::Vector v) {
  const typename S::Vector none{};
  return S::sums(v, none, none, none)[0];
}

/// f(first, end, values) for each run of M, values from the column `first` on.
template <class T, class F>
TOPOMASK_INLINE void for_mask(const MaskRun<T>* runs, int64_t end, const F& f) {
  for (int64_t first = 0; first < end; first += runs->count, ++runs) f(first, first + runs->count, runs->values);
}

/// x_j = scale·s_j (+ M_ij) and its largest value: over M_ij ≠ 0 where the mask multiplies.
template <class S>
TOPOMASK_INLINE typename S::Scalar exponents(const WeighArgs<typename S::Scalar>& a, int64_t end) {
  using T = typename S::Scalar;
  using Vector = typename S::Vector;
  const bool adds = a.weighting == Weighting::additive;
  const T lowest = -std::numeric_limits<T>::infinity();
  Vector most = Vector{} + lowest;
  T largest = lowest;
  for_mask(
      a.mask, end, [&](int64_t first, int64_t last, const T* mask) __attribute__((always_inline)) {
        int64_t j = first;
        for (; j + S::kLanes <= last; j += S::kLanes) {
          const Vector m = S::load(mask + (j - first));
          Vector x = S::load(a.scores + j) * a.scale;
          if (adds) x += m;
          S::store(a.scores + j, x);
          if (!adds) x = m != Vector{} ? x : Vector{} + lowest;
          most = x > most ? x : most;
        }
        for (; j < last; ++j) {
          const T m = mask[j - first], x = a.scores[j] * a.scale + (adds ? m : T(0));
          a.scores[j] = x;
          if ((adds || m != 0) && x > largest) largest = x;
        }
      });
  for (int l = 0; l < S::kLanes; ++l) largest = most[l] > largest ? most[l] : largest;
  return largest;
}

/// scores = exp(min(scores − largest, limit)).
template <class S>
TOPOMASK_INLINE void relative_exponentials(typename S::Scalar* scores, typename S::Scalar largest, int64_t end) {
  using T = typename S::Scalar;
  using Vector = typename S::Vector;
  const Vector limit = Vector{} + kLargestExponent<T>;
  for (int64_t j = 0; j < end; j += S::kLanes) {  // there is room after the end
    const Vector x = S::load(scores + j) - largest;
    S::store(scores + j, x > limit ? limit : x);
  }
  exponentials(S{}, scores, end);
}

template <class S>
TOPOMASK_INLINE void weigh_row_body(const WeighArgs<typename S::Scalar>& a, int64_t, int64_t end) {
  using T = typename S::Scalar;
  using Vector = typename S::Vector;
  if (a.weighting != Weighting::kernel) {
    const T here = exponents<S>(a, end), before = *a.largest;
    const T largest = here > before ? here : before;
    const T none = -std::numeric_limits<T>::infinity();
    T keep[kWidthUnit] = {before == none ? T(0) : before - largest};
    exponentials(S{}, keep, 1);
    *a.keep = before == none || before == largest ? T(1) : keep[0];
    *a.largest = largest;
    *a.total *= *a.keep;
    relative_exponentials<S>(a.scores, largest == none ? T(0) : largest, end);
  }
  Vector sums[2] = {};
  T rest = 0;
  if (a.weighting == Weighting::additive) {
    int64_t j = 0;
    for (; j + 2 * S::kLanes <= end; j += 2 * S::kLanes) {
      for (int n = 0; n < 2; ++n) sums[n] += S::load(a.scores + j + n * S::kLanes);
    }
    for (; j < end; ++j) rest += a.scores[j];
  } else {
    for_mask(
        a.mask, end, [&](int64_t first, int64_t last, const T* mask) __attribute__((always_inline)) {
          int64_t j = first;
          for (; j + 2 * S::kLanes <= last; j += 2 * S::kLanes) {
            for (int n = 0; n < 2; ++n) {
              const int64_t at = j + n * S::kLanes;
              const Vector w = S::load(a.scores + at) * S::load(mask + (at - first));
              S::store(a.scores + at, w);
              sums[n] += w;
            }
          }
          for (; j + S::kLanes <= last; j += S::kLanes) {
            const Vector w = S::load(a.scores + j) * S::load(mask + (j - first));
            S::store(a.scores + j, w);
            sums[0] += w;
          }
          for (; j < last; ++j) rest += a.scores[j] *= mask[j - first];
        });
  }
  *a.total += lanes_sum<S>(sums[0] + sums[1]) + rest;
}

/// The three gradients of one pair or of a vector of them; e is the exponential of the score, softmax alone.
template <Weighting kWeighting, class V, class T>
TOPOMASK_INLINE void pull(V& score, V& grad, V m, V& mask_grad, const PullArgs<T>& a) {
  const V moved = (grad - a.delta) * a.inverse;
  mask_grad = score * moved;
  if constexpr (kWeighting == Weighting::kernel) {
    grad = m * moved;
    score = m * score * a.inverse;
  } else if constexpr (kWeighting == Weighting::additive) {
    grad = mask_grad * a.scale;
    score = score * a.inverse;
  } else {
    grad = m * mask_grad * a.scale;
    score = m * score * a.inverse;
  }
}

template <class S, Weighting kWeighting>
TOPOMASK_INLINE void pull_all(const PullArgs<typename S::Scalar>& a, int64_t end) {
  using T = typename S::Scalar;
  using Vector = typename S::Vector;
  for_mask(
      a.mask, end, [&](int64_t first, int64_t last, const T* mask) __attribute__((always_inline)) {
        int64_t j = first;
        for (; j + S::kLanes <= last; j += S::kLanes) {
          Vector score = S::load(a.scores + j), grad = S::load(a.grads + j), mask_grad;
          pull<kWeighting>(score, grad, S::load(mask + (j - first)), mask_grad, a);
          S::store(a.scores + j, score);
          S::store(a.grads + j, grad);
          if (a.mask_grads != nullptr) S::store(a.mask_grads + j, mask_grad);
        }
        for (; j < last; ++j) {
          T mask_grad;
          pull<kWeighting>(a.scores[j], a.grads[j], mask[j - first], mask_grad, a);
          if (a.mask_grads != nullptr) a.mask_grads[j] = mask_grad;
        }
      });
}

template <class S>
TOPOMASK_INLINE void pull_row_body(const PullArgs<typename S::Scalar>& a, int64_t, int64_t end) {
  if (a.weighting == Weighting::kernel) return pull_all<S, Weighting::kernel>(a, end);
  const bool adds = a.weighting == Weighting::additive;
  for_mask(
      a.mask, end, [&](int64_t first, int64_t last, const auto* mask) __attribute__((always_inline)) {
        for (int64_t j = first; j < last; ++j) {
          a.scores[j] = a.scores[j] * a.scale + (adds ? mask[j - first] : typename S::Scalar(0));
        }
      });
  relative_exponentials<S>(a.scores, a.largest, end);
  if (adds) return pull_all<S, Weighting::additive>(a, end);
  pull_all<S, Weighting::multiplicative>(a, end);
}

}  // namespace

TOPOMASK_SIMD_KERNEL(weigh_row, WeighArgs)
TOPOMASK_SIMD_KERNEL(pull_row, PullArgs)

}  // namespace topomask::ops::fused_attention

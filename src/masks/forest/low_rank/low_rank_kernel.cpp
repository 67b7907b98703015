#include "masks/forest/low_rank/low_rank_kernel.h"

#include "core/simd.h"

namespace topomask {
namespace {

/// Up to four nodes of a group: their factors and rows, zeros where there are fewer.
template <class S>
TOPOMASK_INLINE void load_nodes(const LowRankArgs<typename S::Scalar>& args, const Component& component,
                                const Separable& f, int64_t first, int64_t count) {
  using T = typename S::Scalar;
  constexpr int kNodes = LowRankArgs<T>::kNodes;
  const int64_t rank = f.rank;
  double* send = args.values;
  double* receive = send + rank;
  for (int64_t i = 0; i < kNodes; ++i) {
    const bool exists = i < count;
    if (exists) f.evaluate(args.depth[component.entry + first + i - component.first], send, receive);
    for (int64_t k = 0; k < rank; ++k) {
      args.factors[2 * kNodes * k + i] = exists ? static_cast<T>(send[k]) : T(0);
      args.factors[2 * kNodes * k + kNodes + i] = exists ? static_cast<T>(receive[k]) : T(0);
    }
    T* x = args.rows + i * args.pitch;
    const T* from = args.x + (first + i) * args.stride;
    for (int64_t c = 0; c < args.pitch; ++c) x[c] = exists && c < args.width ? from[c] : T(0);
  }
}

/// The four nodes receive from `before` and send to `own`, a vector of columns at a time.
template <class S>
TOPOMASK_INLINE void exchange(const LowRankArgs<typename S::Scalar>& args, int64_t rank,
                              const typename S::Scalar* before, typename S::Scalar* own) {
  using Vector = typename S::Vector;
  constexpr int kNodes = LowRankArgs<typename S::Scalar>::kNodes;
  auto* received = args.rows + kNodes * args.pitch;
  for (int64_t c = 0; c < args.pitch; c += S::kLanes) {
    Vector x[kNodes], y[kNodes] = {};
    for (int i = 0; i < kNodes; ++i) x[i] = S::load(args.rows + i * args.pitch + c);
    for (int64_t k = 0; k < rank; ++k) {
      const auto* factor = args.factors + 2 * kNodes * k;
      const Vector in = S::load(before + k * args.pitch + c);
      Vector out = S::load(own + k * args.pitch + c);
      for (int i = 0; i < kNodes; ++i) {
        out += factor[i] * x[i];
        y[i] += factor[kNodes + i] * in;
      }
      S::store(own + k * args.pitch + c, out);
    }
    for (int i = 0; i < kNodes; ++i) S::store(received + i * args.pitch + c, y[i]);
  }
}

/// One sweep over the groups of a component, forwards or backwards: a group receives what the groups before it sent,
/// and what it sends itself joins them when it is done.
template <class S>
TOPOMASK_INLINE void sweep(const LowRankArgs<typename S::Scalar>& args, const Component& component, const Separable& f,
                           bool forwards) {
  using T = typename S::Scalar;
  constexpr int kNodes = LowRankArgs<T>::kNodes;
  const int64_t scalars = f.rank * args.pitch;
  T* before = args.sums;
  T* own = before + scalars;
  for (int64_t i = 0; i < 2 * scalars; ++i) before[i] = 0;
  for (int64_t k = 0; k < component.groups; ++k) {
    const int64_t group = component.groups_begin + (forwards ? k : component.groups - 1 - k);
    const int64_t last = args.groups[group + 1];
    for (int64_t first = args.groups[group]; first < last; first += kNodes) {
      const int64_t count = last - first < kNodes ? last - first : kNodes;
      load_nodes<S>(args, component, f, first, count);
      exchange<S>(args, f.rank, before, own);
      for (int64_t i = 0; i < count; ++i) {
        T* y = args.y + (first + i) * args.stride;
        const T* received = args.rows + (kNodes + i) * args.pitch;
#pragma GCC ivdep
        for (int64_t c = 0; c < args.width; ++c) y[c] += received[c];
      }
    }
#pragma GCC ivdep
    for (int64_t i = 0; i < scalars; ++i) {
      before[i] += own[i];
      own[i] = 0;
    }
  }
}

template <class S>
TOPOMASK_INLINE void low_rank_components_body(const LowRankArgs<typename S::Scalar>& args, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    sweep<S>(args, args.components[i], *args.functions[i], true);
    sweep<S>(args, args.components[i], *args.functions[i], false);
  }
}

}  // namespace

TOPOMASK_SIMD_KERNEL(low_rank_components, LowRankArgs)

}  // namespace topomask

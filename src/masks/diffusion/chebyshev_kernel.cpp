#include "masks/diffusion/chebyshev_kernel.h"

#include "core/simd.h"

namespace topomask {

namespace {

/// kVectors vectors of row i from column `from` on.
template <class S, int kVectors>
TOPOMASK_INLINE void clenshaw_tile(const ClenshawArgs<typename S::Scalar>& args, int64_t i, int64_t from) {
  using Vector = typename S::Vector;
  const int64_t place = i * args.width + from;
  const auto* current = args.current + from;
  const auto own = args.diagonal[i] - args.shift;
  Vector sums[kVectors];
  for (int t = 0; t < kVectors; ++t) sums[t] = own * S::load(args.current + place + t * S::kLanes);
  for (int64_t e = args.offsets[i]; e < args.offsets[i + 1]; ++e) {
    const auto value = args.values[e];
    const auto* row = current + args.columns[e] * args.width;
    for (int t = 0; t < kVectors; ++t) sums[t] += value * S::load(row + t * S::kLanes);
  }
  for (int t = 0; t < kVectors; ++t) {
    const int64_t at = place + t * S::kLanes;
    Vector result = args.scale * sums[t] + args.coefficient * S::load(args.x + at);
    if (args.previous) result -= S::load(args.previous + at);
    S::store(args.out + at, result);
  }
}

template <class S>
TOPOMASK_INLINE void clenshaw_rows_body(const ClenshawArgs<typename S::Scalar>& args, int64_t begin, int64_t end) {
  constexpr int64_t kLanes = S::kLanes;
  for (int64_t i = begin; i < end; ++i) {
    int64_t from = 0;
    for (; from + 8 * kLanes <= args.width; from += 8 * kLanes) clenshaw_tile<S, 8>(args, i, from);
    for (; from + 4 * kLanes <= args.width; from += 4 * kLanes) clenshaw_tile<S, 4>(args, i, from);
    for (; from + 2 * kLanes <= args.width; from += 2 * kLanes) clenshaw_tile<S, 2>(args, i, from);
    for (; from < args.width; from += kLanes) clenshaw_tile<S, 1>(args, i, from);
  }
}

}  // namespace

TOPOMASK_SIMD_KERNEL(clenshaw_rows, ClenshawArgs)

}  // namespace topomask

#include "attention/columns_kernel.h"

#include "core/simd.h"

namespace topomask {

namespace {

// Plain loops: the width is rarely a multiple of a vector (d + 1), and memory decides.

template <class S>
TOPOMASK_INLINE void outer_columns_rows_body(const ColumnsArgs<typename S::Scalar>& args, int64_t begin, int64_t end) {
  for (int64_t n = begin; n < end; ++n) {
    const auto* b = args.b + n * args.width;
    for (int64_t s = 0; s < args.features; ++s) {
      const auto scale = args.a[n * args.stride + s];
      auto* x = args.x + (n * args.features + s) * args.width;
      for (int64_t c = 0; c < args.width; ++c) x[c] = scale * b[c];
    }
  }
}

template <class S>
TOPOMASK_INLINE void contract_features_rows_body(const ColumnsArgs<typename S::Scalar>& args, int64_t begin,
                                                 int64_t end) {
  for (int64_t n = begin; n < end; ++n) {
    auto* b = args.b + n * args.width;
    for (int64_t s = 0; s < args.features; ++s) {
      const auto scale = args.a[n * args.stride + s];
      const auto* x = args.x + (n * args.features + s) * args.width;
      for (int64_t c = 0; c < args.width; ++c) b[c] += scale * x[c];
    }
  }
}

template <class S>
TOPOMASK_INLINE void contract_values_rows_body(const ColumnsArgs<typename S::Scalar>& args, int64_t begin,
                                               int64_t end) {
  using Vector = typename S::Vector;
  const int64_t whole = args.width / S::kLanes * S::kLanes;
  for (int64_t n = begin; n < end; ++n) {
    const auto* b = args.b + n * args.width;
    for (int64_t s = 0; s < args.features; ++s) {
      const auto* x = args.x + (n * args.features + s) * args.width;
      Vector sums{};
      for (int64_t c = 0; c < whole; c += S::kLanes) sums += S::load(x + c) * S::load(b + c);
      typename S::Scalar sum = 0;
      for (int lane = 0; lane < S::kLanes; ++lane) sum += sums[lane];
      for (int64_t c = whole; c < args.width; ++c) sum += x[c] * b[c];
      args.a[n * args.stride + s] = sum;
    }
  }
}

}  // namespace

TOPOMASK_SIMD_KERNEL(outer_columns_rows, ColumnsArgs)
TOPOMASK_SIMD_KERNEL(contract_features_rows, ColumnsArgs)
TOPOMASK_SIMD_KERNEL(contract_values_rows, ColumnsArgs)

}  // namespace topomask

#include "ops/spmm/cpu_kernel.h"

#include "ops/row_primitives.h"

namespace topomask::ops::spmm {

namespace {

template <class S>
TOPOMASK_INLINE void spmm_rows_body(const SpmmArgs<typename S::Scalar>& args, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const int64_t first = args.offsets[i], count = args.offsets[i + 1] - first;
    const auto* weights = args.values + first;
    if (args.index) {
      for (int64_t e = 0; e < count; ++e) args.buffer[e] = args.values[args.index[first + e]];
      weights = args.buffer;
    }
    gather_row<S>(weights, args.x, args.width, args.columns + first, count, 1, args.y + i * args.width);
  }
}

template <class S>
TOPOMASK_INLINE void sddmm_rows_body(const SddmmArgs<typename S::Scalar>& args, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const int64_t first = args.offsets[i], count = args.offsets[i + 1] - first;
    row_dots<S>(args.a + i * args.width, args.b, args.width, args.columns + first, count, args.buffer);
    auto* out = args.out + first;
    for (int64_t e = 0; e < count; ++e) out[e] = args.accumulate ? out[e] + args.buffer[e] : args.buffer[e];
  }
}

}  // namespace

TOPOMASK_SIMD_KERNEL(spmm_rows, SpmmArgs)
TOPOMASK_SIMD_KERNEL(sddmm_rows, SddmmArgs)

}  // namespace topomask::ops::spmm

#include "masks/diffusion/hypercube_kernel.h"

#include "core/simd.h"

namespace topomask {

namespace {

template <class S>
TOPOMASK_INLINE void butterfly_rows_body(const ButterflyArgs<typename S::Scalar>& args, int64_t begin, int64_t end) {
  const int64_t bit = int64_t{1} << args.dimension;
  for (int64_t pair = begin; pair < end; ++pair) {
    const int64_t low = pair & (bit - 1), node = ((pair - low) << 1) | low;
    auto* first = args.x + node * args.width;
    auto* second = first + bit * args.width;
    for (int64_t c = 0; c < args.width; c += S::kLanes) {
      const auto a = S::load(first + c), b = S::load(second + c);
      S::store(first + c, args.same * a + args.other * b);
      S::store(second + c, args.other * a + args.same * b);
    }
  }
}

}  // namespace

TOPOMASK_SIMD_KERNEL(butterfly_rows, ButterflyArgs)

}  // namespace topomask

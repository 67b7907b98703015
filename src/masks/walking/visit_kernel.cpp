#include "masks/walking/visit_kernel.h"

#include "core/simd.h"

namespace topomask {

namespace {

template <class S>
TOPOMASK_INLINE void visit_dots_body(const VisitDotArgs<typename S::Scalar>& args, int64_t begin, int64_t end) {
  using Vector = typename S::Vector;
  const int64_t last = end - 1;
  for (int64_t e = begin; e < end; e += 4) {
    const typename S::Scalar *a[4], *b[4];
    for (int n = 0; n < 4; ++n) {
      const int64_t visit = e + n < last ? e + n : last;
      a[n] = args.a + args.start[visit] * args.width;
      b[n] = args.b + args.node[visit] * args.width;
    }
    Vector sum0{}, sum1{}, sum2{}, sum3{};
    for (int64_t t = 0; t < args.width; t += S::kLanes) {
      sum0 += S::load(a[0] + t) * S::load(b[0] + t);
      sum1 += S::load(a[1] + t) * S::load(b[1] + t);
      sum2 += S::load(a[2] + t) * S::load(b[2] + t);
      sum3 += S::load(a[3] + t) * S::load(b[3] + t);
    }
    const typename S::Quad dots = S::sums(sum0, sum1, sum2, sum3);
    for (int n = 0; n < 4 && e + n < end; ++n) args.dots[e + n] = dots[n];
  }
}

template <class S>
TOPOMASK_INLINE void visit_add_body(const VisitAddArgs<typename S::Scalar>& args, int64_t begin, int64_t end) {
  for (int64_t e = begin; e < end; ++e) {
    const auto* x = args.x + args.from[e] * args.width;
    auto* y = args.y + args.to[e] * args.width;
    for (int64_t t = args.first; t < args.last; t += S::kLanes) {
      S::store(y + t, S::load(y + t) + args.weight[e] * S::load(x + t));
    }
  }
}

}  // namespace

TOPOMASK_SIMD_KERNEL(visit_dots, VisitDotArgs)
TOPOMASK_SIMD_KERNEL(visit_add, VisitAddArgs)

}  // namespace topomask

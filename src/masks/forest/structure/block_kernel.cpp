#include "masks/forest/structure/block_kernel.h"

#include "masks/forest/structure/row_dot.h"

namespace topomask {
namespace {

template <class S>
TOPOMASK_INLINE void block_products_body(const BlockArgs<typename S::Scalar>& args, int64_t begin, int64_t end) {
  using T = typename S::Scalar;
  const int64_t width = args.width;
  for (int64_t b = begin; b < end; ++b) {
    const int64_t size = args.blocks[b].size;
    const T* value = args.values + args.blocks[b].entry;
    const T* x = args.x + args.blocks[b].first * width;
    T* y = args.y + args.blocks[b].first * width;
    for (int64_t i = 0; i < size; ++i, y += width) {
      const T first = *value++;
#pragma GCC ivdep
      for (int64_t c = 0; c < width; ++c) y[c] = first * x[c];
      for (int64_t j = 1; j < size; ++j) {
        const T f = *value++;
        const T* from = x + j * width;
#pragma GCC ivdep
        for (int64_t c = 0; c < width; ++c) y[c] += f * from[c];
      }
    }
  }
}

template <class S>
TOPOMASK_INLINE void block_dots_body(const BlockDotArgs<typename S::Scalar>& args, int64_t begin, int64_t end) {
  const int64_t width = args.width;
  for (int64_t b = begin; b < end; ++b) {
    const int64_t size = args.blocks[b].size, first = args.blocks[b].first;
    double* dot = args.dots + args.blocks[b].entry;
    for (int64_t i = 0; i < size; ++i, dot += size) {
      for (int64_t j = 0; j < size; j += 4) {
        const auto dots =
            four_dots<S>(args.g + (first + i) * width, args.x + (first + j) * width, width, size - j, width);
        for (int64_t k = 0; k < 4 && j + k < size; ++k) dot[j + k] += dots[k];
      }
    }
  }
}

}  // namespace

TOPOMASK_SIMD_KERNEL(block_products, BlockArgs)
TOPOMASK_SIMD_KERNEL(block_dots, BlockDotArgs)

}  // namespace topomask

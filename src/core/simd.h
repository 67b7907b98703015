#pragma once

#include <cstdint>

#include "core/internal_api.h"

// Vectors for kernels on raw pointers, in one binary for every x86-64. A kernel is written once, as an always-inlined
// template over Simd<scalar, bytes>; TOPOMASK_SIMD_KERNEL compiles it for three levels of the processor, each with
// vectors as wide as its registers, and the dynamic linker picks the level when the library is loaded. Only GCC's
// vector extensions are used.

#define TOPOMASK_INLINE __attribute__((always_inline)) inline

namespace TOPOMASK_INTERNAL_API topomask {

/// The widths a kernel sees are multiples of this many scalars, whatever the level: results differ between levels by
/// rounding only, and a buffer laid out for one fits all.
inline constexpr int64_t kWidthUnit = 16;

template <class T, int kBytes>
struct Simd {
  using Scalar = T;
  typedef T Vector __attribute__((vector_size(kBytes)));
  typedef T Quad __attribute__((vector_size(4 * sizeof(T))));  ///< four scalars: one for each of four neighbours
  static constexpr int kLanes = kBytes / sizeof(T);
  static_assert(kWidthUnit % kLanes == 0);

  static TOPOMASK_INLINE Vector load(const T* p) { return *reinterpret_cast<const LooseVector*>(p); }
  static TOPOMASK_INLINE void store(T* p, Vector v) { *reinterpret_cast<LooseVector*>(p) = v; }
  /// Stores past the caches, for data that is not read soon: the line is not fetched to be overwritten. p is aligned to
  /// the vector, and `end_streaming` follows before another thread may read it.
  static TOPOMASK_INLINE void stream(T* p, Vector v) {
#if defined(__SSE2__)
    typedef float Lane __attribute__((vector_size(16), may_alias));
    union {
      Vector whole;
      Lane lanes[kBytes / 16];
    } parts = {v};
    for (int i = 0; i < kBytes / 16; ++i) __builtin_ia32_movntps(reinterpret_cast<float*>(p) + 4 * i, parts.lanes[i]);
#else
    store(p, v);
#endif
  }
  static TOPOMASK_INLINE void end_streaming() {
#if defined(__SSE2__)
    __builtin_ia32_sfence();
#endif
  }
  static TOPOMASK_INLINE Quad load_quad(const T* p) {
    return *reinterpret_cast<const LooseQuad*>(p);
  }
  static TOPOMASK_INLINE void store_quad(T* p, Quad v) {
    *reinterpret_cast<LooseQuad*>(p) = v;
  }
  /// The first `count` ≤ 4 scalars at p, then zeros; reads nothing beyond.
  static TOPOMASK_INLINE Quad load_quad(const T* p, int64_t count) {
    if (count >= 4) return load_quad(p);
    Quad quad{};
    if (count > 0) quad[0] = p[0];
    if (count > 1) quad[1] = p[1];
    if (count > 2) quad[2] = p[2];
    return quad;
  }
  static TOPOMASK_INLINE T quad_sum(Quad v) {
    return (v[0] + v[2]) + (v[1] + v[3]);
  }

  /// The four sums over lanes at once: each shuffle-and-add step serves two or four of the vectors.
  static TOPOMASK_INLINE Quad sums(Vector a, Vector b, Vector c, Vector d);

 private:
  typedef T Half __attribute__((vector_size(kBytes / 2)));
  static TOPOMASK_INLINE Half fold(Vector v) {
    if constexpr (kLanes == 16) {
      return __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
             __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
    } else {
      return __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
    }
  }
  typedef T LooseVector __attribute__((vector_size(kBytes), aligned(sizeof(T)), may_alias));
  typedef T LooseQuad __attribute__((vector_size(4 * sizeof(T)), aligned(sizeof(T)), may_alias));
};

template <class T, int kBytes>
TOPOMASK_INLINE typename Simd<T, kBytes>::Quad Simd<T, kBytes>::sums(Vector a, Vector b, Vector c, Vector d) {
  if constexpr (kLanes > 4 && kBytes > 32) {
    // Halves first: a shuffle of 32 bytes costs half of one of 64, or less.
    return Simd<T, kBytes / 2>::sums(fold(a), fold(b), fold(c), fold(d));
  } else if constexpr (kLanes == 8) {
    const Vector ab = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13) +
                      __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
    const Vector cd = __builtin_shufflevector(c, d, 0, 1, 8, 9, 4, 5, 12, 13) +
                      __builtin_shufflevector(c, d, 2, 3, 10, 11, 6, 7, 14, 15);
    const Vector x = __builtin_shufflevector(ab, cd, 0, 2, 8, 10, 4, 6, 12, 14) +
                     __builtin_shufflevector(ab, cd, 1, 3, 9, 11, 5, 7, 13, 15);
    return __builtin_shufflevector(x, x, 0, 1, 2, 3) + __builtin_shufflevector(x, x, 4, 5, 6, 7);
  } else if constexpr (kLanes == 4) {
    const Vector ab = __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const Vector cd = __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);
    return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
  } else {
    return Quad{a[0] + a[1], b[0] + b[1], c[0] + c[1], d[0] + d[1]};
  }
}

/// 1, 3 or 4: the level of x86-64 whose kernels run here.
int simd_level();

}  // namespace topomask

// Not under the thread sanitizer, which instruments the functions that choose a version: they run while the program is
// loaded, before the sanitizer is there, and crash.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
// The versions are exported, so that tests find and compare them all.
#define TOPOMASK_SIMD_VERSION(name, Args, T, level, bytes)                                                       \
  __attribute__((visibility("default"), target(level))) void name##_versions(const Args<T>& args, int64_t begin, \
                                                                             int64_t end) {                      \
    name##_body<::topomask::Simd<T, bytes>>(args, begin, end);                                                   \
  }
#define TOPOMASK_SIMD_VERSIONS(name, Args, T)                  \
  TOPOMASK_SIMD_VERSION(name, Args, T, "default", 16)          \
  TOPOMASK_SIMD_VERSION(name, Args, T, "arch=x86-64-v3", 32)   \
  TOPOMASK_SIMD_VERSION(name, Args, T, "arch=x86-64-v4", 64)   \
  void name(const Args<T>& args, int64_t begin, int64_t end) { \
    name##_versions(args, begin, end);                         \
  }
#else
#define TOPOMASK_SIMD_VERSIONS(name, Args, T)                  \
  void name(const Args<T>& args, int64_t begin, int64_t end) { \
    name##_body<::topomask::Simd<T, 16>>(args, begin, end);    \
  }
#endif

/// Defines `void name(const Args<T>&, int64_t begin, int64_t end)` for float and double from the always-inlined
/// template `name_body<Simd>`. A lambda or a plain function inside the body would stay at the lowest level: there must
/// be none.
#define TOPOMASK_SIMD_KERNEL(name, Args)    \
  TOPOMASK_SIMD_VERSIONS(name, Args, float) \
  TOPOMASK_SIMD_VERSIONS(name, Args, double)

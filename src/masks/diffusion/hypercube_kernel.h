#pragma once

#include <cstdint>

// One dimension of a hypercube, on raw pointers, for float and double.

namespace topomask {

/// For each pair of nodes that differ in bit `dimension` only, pairs begin … end−1 in order: (a, b) ← (same·a +
/// other·b, other·a + same·b) in place. x [nodes, width], width a multiple of kWidthUnit.
template <class T>
struct ButterflyArgs {
  T* x;
  int64_t width;
  int64_t dimension;
  T same;
  T other;
};
void butterfly_rows(const ButterflyArgs<float>& args, int64_t begin, int64_t end);
void butterfly_rows(const ButterflyArgs<double>& args, int64_t begin, int64_t end);

}  // namespace topomask

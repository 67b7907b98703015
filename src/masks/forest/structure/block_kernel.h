#pragma once

#include <cstdint>

#include "masks/forest/structure/decomposition.h"

// The near pairs of a decomposition on raw pointers, for float and double: dense products block by block. Rows are by
// position, `width` scalars each.

namespace topomask {

template <class T>
struct BlockArgs {
  const Block* blocks;
  const T* values;  ///< f(distance), parallel to Decomposition::near
  const T* x;
  T* y;
  int64_t width;
};

/// y_i = Σ_j f(dist(i, j)) x_j over the pairs of blocks begin … end−1; every row of theirs is written.
void block_products(const BlockArgs<float>& args, int64_t begin, int64_t end);
void block_products(const BlockArgs<double>& args, int64_t begin, int64_t end);

template <class T>
struct BlockDotArgs {
  const Block* blocks;
  const T* g;
  const T* x;
  int64_t width;
  double* dots;  ///< parallel to Decomposition::near
};

/// dots_ij += ⟨g_i, x_j⟩ over the pairs of blocks begin … end−1.
void block_dots(const BlockDotArgs<float>& args, int64_t begin, int64_t end);
void block_dots(const BlockDotArgs<double>& args, int64_t begin, int64_t end);

}  // namespace topomask

#pragma once

#include <cstdint>

#include "topomask/tile_kind.h"

// What fused attention knows of a mask: how a tile of M is made of a few arrays. Plain numbers, for the CPU and CUDA
// alike.

namespace topomask {

/// How a weight follows from the score s = <q_i, k_j> and M_ij.
enum class Weighting : int {
  kernel,          ///< M_ij s
  additive,        ///< exp(scale s + M_ij - max)
  multiplicative,  ///< M_ij exp(scale s - max), the maximum over M_ij != 0
};

/// `heads` is 1 or the number of heads. The first `globals` of `nodes` tokens see every token and are seen by all with
/// M = 1; the arrays are about the others. `length` is the distance between the values of two heads.
template <class A>
struct TileMask {
  TileKind kind;
  int64_t heads, nodes, globals, length;
  const A* values;                  ///< [heads, ...]; of factors the left side
  const A* right = nullptr;         ///< factors: the right side [heads, n, rank]
  const int32_t* codes = nullptr;   ///< offsets: ascending [nodes], of global tokens 0
  const int16_t* places = nullptr;  ///< [n, n]
  int64_t shift = 0;                ///< offsets
  int64_t rank = 0;                 ///< factors
};

}  // namespace topomask

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "topomask/tile_kind.h"

namespace topomask {

/// The few arrays that tiles of M are made of, for the fused route: a tile is computed where it is used, and M is never
/// stored. `values` and `right` are differentiable in the mask's parameters; H is 1 or the mask's heads, and n the
/// nodes after the global tokens.
struct MaskTiles {
  TileKind kind = TileKind::ones;
  at::Tensor values = {};  ///< offsets [H, L], matrix [H, n, n], places and hamming [H, K], factors: left [H, n, r]
  at::Tensor right = {};   ///< factors: [H, n, r]
  at::Tensor index = {};   ///< offsets: the nodes' codes, int32 ascending [n]; places: int16 [n, n]
  int64_t shift = 0;       ///< offsets: M_ij = values[codes_i - codes_j + shift]; factors: added where i = j
  int64_t globals = 0;     ///< tokens before the others, with M = 1 in their rows and columns
};

}  // namespace topomask

#pragma once

namespace topomask {

/// How M_ij follows from the arrays of MaskTiles; i and j count nodes after the global tokens.
enum class TileKind : int {
  ones,     ///< 1
  causal,   ///< 1 where j <= i
  offsets,  ///< values[codes_i - codes_j + shift]: a Toeplitz mask on any number of axes
  matrix,   ///< values[i, j]
  places,   ///< values[places_ij]; the last value where a place is negative or beyond: distances of graphs
  hamming,  ///< values[number of bits in which i and j differ]
  factors,  ///< <left_i, right_j>, with shift added where i = j
};

}  // namespace topomask

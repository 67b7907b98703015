#pragma once

#include <cstdint>

#include "core/host_device.h"

// Patterns as kernels for tensor cores want them: the distinct columns that sixteen neighbouring rows (a tile) name, in
// ascending order, sixteen at a time (a chunk), with a bit for every entry. Neighbouring rows name many columns in
// common, so that a chunk is a fairly full matrix of 16 × 16, and what it takes is less than the columns of its
// entries.

namespace topomask {

/// One int32 tensor: the number of the first chunk of each tile and the number of all chunks, padded to 16 bytes; then
/// the chunks. Words 0 to 15 of a chunk are its columns, number 4t + 2b + j of them in word 8b + 2t + j: the thread of
/// a warp that holds column 2t + j of block b in a product on the tensor cores (core/cuda/tensor_core.cuh) thus has
/// four that follow one another. The last chunk of a tile names its first column again where there are no more. Words
/// 16 to 23 are bits: row g of the tile in the lower half of word 16 + g, row g + 8 in the upper, bit c for an entry in
/// column number c; the bits of a row are in the order of its entries. Long rows (core/cuda/long_rows.h) have none.
struct RowTiles {
  static constexpr int kRows = 16, kColumns = 16, kChunkWords = 24;

  TOPOMASK_HOST_DEVICE static constexpr int64_t count(int64_t rows) { return (rows + kRows - 1) / kRows; }
  /// Where the chunks start.
  TOPOMASK_HOST_DEVICE static constexpr int64_t header(int64_t rows) { return (count(rows) + 1 + 3) / 4 * 4; }
  /// The word of column number c.
  TOPOMASK_HOST_DEVICE static constexpr int word(int c) { return c / 2 % 2 * 8 + c / 4 * 2 + c % 2; }
};

}  // namespace topomask

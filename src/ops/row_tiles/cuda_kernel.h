#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

// The tiles of layout.h on the GPU: a warp merges the sixteen rows of a tile.

namespace topomask::cuda {

struct RowTilesArgs {
  const int64_t* offsets;
  const int32_t* columns;
  int64_t rows;
  int longest_short_row;
};

/// chunks[t] = how many chunks tile t takes.
void count_chunks(const RowTilesArgs& args, int32_t* chunks, cudaStream_t stream);
/// Writes the chunks after the header of `tiles`, which says where those of each tile start.
void list_chunks(const RowTilesArgs& args, int32_t* tiles, cudaStream_t stream);

}  // namespace topomask::cuda

#include <climits>

#include "ops/row_tiles/cuda_kernel.h"
#include "ops/row_tiles/layout.h"

namespace topomask::cuda {

namespace {

constexpr unsigned kWarp = 0xffffffffu;
constexpr int kTilesPerBlock = 4;

/// Lane r has row r of the tile: its position, its column there and the next one, which is loaded ahead.
class MergedRow {
 public:
  __device__ __forceinline__ MergedRow(const RowTilesArgs& args, int64_t row, bool present) : columns_(args.columns) {
    if (present && row < args.rows) {
      at_ = args.offsets[row];
      end_ = args.offsets[row + 1];
      if (end_ - at_ > args.longest_short_row) end_ = at_;
    }
    column_ = look(at_);
    next_ = look(at_ + 1);
  }
  /// The lowest column that is left in any row; INT_MAX after all of them.
  __device__ __forceinline__ int32_t lowest() const { return __reduce_min_sync(kWarp, column_); }
  /// Whether this row has the lowest; goes on where it does.
  __device__ __forceinline__ bool take(int32_t lowest) {
    const bool has = column_ == lowest;
    if (has) {
      ++at_;
      column_ = next_;
      next_ = look(at_ + 1);
    }
    return has;
  }

 private:
  __device__ __forceinline__ int32_t look(int64_t at) const { return at < end_ ? columns_[at] : INT_MAX; }

  const int32_t* columns_;
  int64_t at_ = 0, end_ = 0;
  int32_t column_, next_;
};

template <bool kList>
__global__ void __launch_bounds__(32 * kTilesPerBlock) merge_kernel(const RowTilesArgs args, int32_t* counts_or_tiles) {
  const int lane = threadIdx.x;
  const int64_t tile = static_cast<int64_t>(blockIdx.x) * kTilesPerBlock + threadIdx.y;
  if (tile >= RowTiles::count(args.rows)) return;
  MergedRow row(args, tile * RowTiles::kRows + lane, lane < RowTiles::kRows);
  int32_t* chunk = nullptr;
  if constexpr (kList) {
    chunk = counts_or_tiles + RowTiles::header(args.rows) + int64_t{counts_or_tiles[tile]} * RowTiles::kChunkWords;
  }
  int chunks = 0;
  for (int32_t lowest = row.lowest(); lowest != INT_MAX; ++chunks) {
    int32_t column = lowest;  // lane c keeps number c; lanes without one name the first again
    uint32_t bits = 0;
    for (int c = 0; c < RowTiles::kColumns && lowest != INT_MAX; ++c) {
      if (lane == c) column = lowest;
      bits |= row.take(lowest) ? 1u << c : 0u;
      lowest = row.lowest();
    }
    if constexpr (kList) {
      bits |= __shfl_down_sync(kWarp, bits, 8) << 16;
      if (lane < RowTiles::kColumns) chunk[RowTiles::word(lane)] = column;
      if (lane < 8) chunk[RowTiles::kColumns + lane] = static_cast<int32_t>(bits);
      chunk += RowTiles::kChunkWords;
    }
  }
  if constexpr (!kList) {
    if (lane == 0) counts_or_tiles[tile] = chunks;
  }
}

template <bool kList>
void merge(const RowTilesArgs& args, int32_t* counts_or_tiles, cudaStream_t stream) {
  const int64_t blocks = (RowTiles::count(args.rows) + kTilesPerBlock - 1) / kTilesPerBlock;
  if (blocks == 0) return;
  merge_kernel<kList><<<static_cast<unsigned>(blocks), dim3(32, kTilesPerBlock), 0, stream>>>(args, counts_or_tiles);
}

}  // namespace

void count_chunks(const RowTilesArgs& args, int32_t* chunks, cudaStream_t stream) {
  merge<false>(args, chunks, stream);
}

void list_chunks(const RowTilesArgs& args, int32_t* tiles, cudaStream_t stream) {
  merge<true>(args, tiles, stream);
}

}  // namespace topomask::cuda

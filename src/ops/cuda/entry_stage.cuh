#pragma once

#include <cstdint>

#include "ops/cuda/row_tile.cuh"

namespace topomask::cuda {

/// Collects two words for every entry of a tile before they are written to arrays in the order of the entries. A chunk
/// has a few entries of each row, which would fill only parts of cache lines. So shared memory holds all entries of a
/// tile where they fit, otherwise those of kChunks chunks, row by row.
class EntryStage {
 public:
  static constexpr int kChunks = 4;
  static constexpr int kPitch = kChunks * RowTiles::kColumns + 4;  ///< the padding keeps rows on banks of their own
  static constexpr int kRoom = kTileRows * kPitch;
  struct Memory {
    uint32_t words[2][kRoom];
    uint32_t padding[32];  ///< over-read by the unrolled loop of write_range and discarded
  };

  /// `starts` of rows g and g + 8 among the `entries` of the tile.
  __device__ __forceinline__ EntryStage(Memory& memory, const int (&starts)[2], int entries)
      : words_(shared_address(memory.words)), entries_(entries), whole_(entries <= kRoom) {
#pragma unroll
    for (int r = 0; r < 2; ++r) behind_[r] = starts[r];
    begin(starts);
  }

  __device__ __forceinline__ void put(const Cells& cells, int cell, uint32_t first, uint32_t second) const {
    const uint32_t to = words_ + 4 * (cells.entry(cell) + shift_[Cells::row(cell)]);
    store_shared_if(cells.present(cell), to, first);
    store_shared_if(cells.present(cell), to + kSecond, second);
  }

  /// Called after the cells of a chunk have been put: calls write(entry, first, second) for all entries that are held
  /// where the tile ends or the memory is full.
  template <class Write>
  __device__ __forceinline__ void end_chunk(const Cells& cells, bool last, const Write& write) {
#pragma unroll
    for (int r = 0; r < 2; ++r) behind_[r] = cells.first[r] + __popc(cells.bits[r]);
    if (!last && (whole_ || ++chunks_ < kChunks)) return;
    __syncwarp();
    if (whole_) {
      write_range(write, 0, 0, entries_, threadIdx.x, 32);
    } else {
      write_rows(write);
    }
    __syncwarp();
  }

 private:
  static constexpr unsigned kWarp = 0xffffffffu;
  static constexpr uint32_t kSecond = kRoom * sizeof(uint32_t);

  template <class Write>
  __device__ __forceinline__ void write_rows(const Write& write) {
    const int lane = threadIdx.x;
    int next[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) next[r] = __shfl_sync(kWarp, behind_[r], lane | 3);
#pragma unroll 1
    for (int g = 0; g < 8; ++g) {  // rows g and g + 8, sixteen lanes each
      const int shift[2] = {__shfl_sync(kWarp, shift_[0], 4 * g), __shfl_sync(kWarp, shift_[1], 4 * g)};
      const int behind[2] = {__shfl_sync(kWarp, next[0], 4 * g), __shfl_sync(kWarp, next[1], 4 * g)};
      const int r = lane / 16, first = (g + 8 * r) * kPitch - (r == 0 ? shift[0] : shift[1]);
      write_range(write, r == 0 ? shift[0] : shift[1], first, r == 0 ? behind[0] : behind[1], lane % 16, 16);
    }
    begin(next);
  }

  /// Reads two entries at a time, so that the latencies of the loads overlap.
  template <class Write>
  __device__ __forceinline__ void write_range(const Write& write, int shift, int first, int behind, int lane,
                                              int lanes) const {
#pragma unroll 1
    for (int entry = first + lane; entry < behind; entry += 2 * lanes) {
      uint32_t words[2][2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint32_t from = words_ + 4 * (entry + i * lanes + shift);
        words[i][0] = load_shared_word(from);
        words[i][1] = load_shared_word(from + kSecond);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (entry + i * lanes < behind) write(entry + i * lanes, words[i][0], words[i][1]);
      }
    }
  }

  /// The entries that are held next start at `entries` of rows g and g + 8.
  __device__ __forceinline__ void begin(const int (&entries)[2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      shift_[r] = whole_ ? 0 : static_cast<int>(threadIdx.x / 4 + 8 * r) * kPitch - entries[r];
    }
    chunks_ = 0;
  }

  uint32_t words_;
  int entries_;
  bool whole_;
  int chunks_;
  int shift_[2];   ///< from an entry of row g or g + 8 to its place in shared memory
  int behind_[2];  ///< the entry after this lane's cells of the last chunk; a row ends with those of its last lane
};

}  // namespace topomask::cuda

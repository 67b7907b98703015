#pragma once

#include <cstdint>

#include "core/cuda/shared_rows.cuh"
#include "ops/row_tiles/layout.h"

// Sixteen rows of a CSR matrix at once, on the tensor cores: a warp takes the chunks of a tile (ops/row_tiles/layout.h)
// one after the other, each as a dense matrix of 16 × 16 with zeros where there is no entry. Each row of nodes that a
// tile needs is read once for all of its rows, into shared memory, while earlier chunks are worked on.

namespace topomask::cuda {

/// Rows of nodes of `width` values, which start `pitch` values apart.
template <class T>
struct Nodes {
  const T* rows;
  int width;
  int64_t pitch;
};

/// A pattern [rows, .] and its tiles.
struct TiledPattern {
  const int64_t* offsets;
  const int32_t* tiles;
  int64_t rows;
  int longest_short_row;  ///< long_rows.h
};

/// A pointer to global memory that stays in registers: its parts would be added up again at every use.
template <class P>
__device__ __forceinline__ P* kept(P* pointer) {
  asm("" : "+l"(pointer));
  __builtin_assume(__isGlobal(pointer));
  return pointer;
}

/// The eight cells of a chunk that a lane has, as results of two products have them: cell 4b + 2r + j is row g + 8r,
/// column 2t + j of block b.
struct Cells {
  uint32_t bits[2];  ///< four of each row
  int first[2];      ///< entry of the tile, from here on

  __device__ __forceinline__ static constexpr int row(int cell) { return cell % 4 / 2; }
  __device__ __forceinline__ bool present(int cell) const { return bits[row(cell)] >> bit(cell) & 1; }
  /// Among the entries of the tile.
  __device__ __forceinline__ int entry(int cell) const {
    return first[row(cell)] + __popc(bits[row(cell)] & ((1u << bit(cell)) - 1));
  }

 private:
  __device__ __forceinline__ static constexpr int bit(int cell) { return cell / 4 * 2 + cell % 2; }
};

/// A warp's sixteen rows; the block has no other threads.
template <class T, int kWidth>
class RowTile {
 public:
  using Rows = SharedRows<kWidth>;
  /// Rows of two kinds of nodes, of a chunk that is worked on and of the next; in the end, sums.
  struct Memory {
    alignas(256) unsigned char stages[2][2][Rows::kBytes];
  };
  /// The indices of this thread; g and t are those of multiply_add.
  const int lane = threadIdx.x, g = threadIdx.x / 4, t = threadIdx.x % 4;
  int64_t first_row, first_entry;
  int rows, entries;
  int starts[2];  ///< of rows g and g + 8 among the entries

  __device__ __forceinline__ RowTile(Memory& memory, const TiledPattern& pattern, int64_t tile)
      : first_row(tile * kTileRows),
        rows(static_cast<int>(min(static_cast<int64_t>(kTileRows), pattern.rows - first_row))),
        stages_(shared_address(memory.stages)),
        chunks_(pattern.tiles + RowTiles::header(pattern.rows)),
        begin_(pattern.tiles[tile]),
        end_(pattern.tiles[tile + 1]) {
    first_entry = pattern.offsets[first_row];
    const int row = min(lane, rows);
    const int start = static_cast<int>(pattern.offsets[first_row + row] - first_entry);
    const int behind = static_cast<int>(pattern.offsets[first_row + min(row + 1, rows)] - first_entry);
    entries = __shfl_sync(kWarp, behind, kTileRows - 1);
    left_out_ = __ballot_sync(kWarp, behind - start > pattern.longest_short_row);
    starts[0] = __shfl_sync(kWarp, start, g);
    starts[1] = __shfl_sync(kWarp, start, g + 8);
  }

  /// Whether the tile has a row; long ones are left to blocks of their own.
  __device__ __forceinline__ bool has(int row) const { return row < rows && (left_out_ >> row & 1) == 0; }

  /// The tile's own rows of `nodes` as left operand, zero after their end. Rows past the last one repeat it and are not
  /// used.
  __device__ __forceinline__ void load_own(uint32_t (&words)[kWidth / 16][4], const Nodes<T>& nodes) const {
    const T* upper = nodes.rows + (first_row + min(g, rows - 1)) * nodes.pitch + 2 * t;
    const T* lower = nodes.rows + (first_row + min(g + 8, rows - 1)) * nodes.pitch + 2 * t;
#pragma unroll
    for (int packet = 0; packet < kWidth / 8; ++packet) {
      const bool present = packet * 8 < nodes.width;
      const auto word = [&](const T* row) {
        return present ? __ldg(reinterpret_cast<const uint32_t*>(row + packet * 8)) : 0u;
      };
      words[packet / 2][packet % 2 * 2] = word(upper);
      words[packet / 2][packet % 2 * 2 + 1] = word(lower);
    }
  }

  /// each(cells, values, rows of a, rows of b, whether it is the last) for every chunk. What an entry says is read in
  /// two steps, each a chunk ahead of the next: value[cell] = second(entry, first(entry)), zero where there is none.
  /// meanwhile() comes once, while the first rows are on their way.
  template <class First, class Second, class Meanwhile, class Each>
  __device__ __forceinline__ void for_chunks(const Nodes<T>& a, const Nodes<T>& b, const First& first,
                                             const Second& second, const Meanwhile& meanwhile, const Each& each) const {
    using Key = decltype(first(0));
    using Value = decltype(second(0, Key{}));
    int next_entry[2] = {starts[0], starts[1]};
    uint32_t columns[kSteps], words;
    struct Read {
      Cells cells;
      Key keys[8];
    } after_next, next;
    struct Now {
      Cells cells;
      Value values[8];
    } now;
    const int32_t* next_columns = kept(chunks_ + int64_t{begin_} * RowTiles::kChunkWords + lane / Rows::kPackets);
    const int32_t* next_words = kept(chunks_ + int64_t{begin_} * RowTiles::kChunkWords + RowTiles::kColumns + g);
    const auto load_columns = [&](int chunk) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        columns[step] = chunk < end_ ? static_cast<uint32_t>(__ldg(next_columns + step * Rows::kRowsAtOnce)) : 0u;
      }
      next_columns = kept(next_columns + RowTiles::kChunkWords);
    };
    const auto load_words = [&](int chunk) {
      words = chunk < end_ ? static_cast<uint32_t>(__ldg(next_words)) : 0u;
      next_words = kept(next_words + RowTiles::kChunkWords);
    };
    const auto read_keys = [&](Read& read) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const uint32_t bits = words >> (16 * r) & 0xffffu;
        read.cells.bits[r] = bits >> (4 * t) & 15u;
        read.cells.first[r] = next_entry[r] + __popc(bits & ((1u << (4 * t)) - 1));
        next_entry[r] += __popc(bits);
      }
#pragma unroll
      for (int c = 0; c < 8; ++c) read.keys[c] = read.cells.present(c) ? first(read.cells.entry(c)) : Key{};
    };
    const auto read_values = [&](Now& to, const Read& read) {
      to.cells = read.cells;
#pragma unroll
      for (int c = 0; c < 8; ++c) {
        to.values[c] = read.cells.present(c) ? second(read.cells.entry(c), read.keys[c]) : Value{};
      }
    };
    const auto ask = [&](int chunk, int stage) {
      if (chunk < end_) {
        ask_rows(rows_of(stage, 0), columns, a);
        ask_rows(rows_of(stage, 1), columns, b);
      }
      asm volatile("cp.async.commit_group;");
    };

    load_words(begin_);
    load_columns(begin_);
    ask(begin_, 0);
    load_columns(begin_ + 1);
    read_keys(next);
    load_words(begin_ + 1);
    read_values(now, next);
    read_keys(next);
    load_words(begin_ + 2);
    meanwhile();
    int stage = 0;
    for (int chunk = begin_; chunk < end_; ++chunk) {
      __syncwarp();
      ask(chunk + 1, stage ^ 1);
      load_columns(chunk + 2);
      read_keys(after_next);
      load_words(chunk + 3);
      Now later;
      read_values(later, next);
      asm volatile("cp.async.wait_group 1;");
      __syncwarp();
      each(now.cells, now.values, rows_of(stage, 0), rows_of(stage, 1), chunk + 1 == end_);
      now = later;
      next = after_next;
      stage ^= 1;
    }
  }

  /// The tile's own rows of a matrix [., width] whose rows start `pitch` values apart: row g of the sums times `upper`,
  /// row g + 8 times `lower`.
  __device__ __forceinline__ void store_own(T* to, int64_t pitch, int width, const float (&sums)[kWidth / 8][4],
                                            float upper = 1, float lower = 1) const {
    __syncwarp();
    const Rows staged = rows_of(0, 0);
#pragma unroll
    for (int block = 0; block < kWidth / 8; ++block) {
      store_shared(staged.base + Rows::at(g, block) + 4 * t, two_of<T>(upper * sums[block][0], upper * sums[block][1]));
      store_shared(staged.base + Rows::at(g + 8, block) + 4 * t,
                   two_of<T>(lower * sums[block][2], lower * sums[block][3]));
    }
    __syncwarp();
#pragma unroll
    for (int e = lane; e < kTileRows * Rows::kPackets; e += 32) {
      const int row = e / Rows::kPackets, packet = e % Rows::kPackets;
      if (!has(row) || packet * 8 >= width) continue;
      *reinterpret_cast<uint4*>(to + (first_row + row) * pitch + packet * 8) =
          load_shared(staged.base + Rows::at(row, packet));
    }
  }

 private:
  static constexpr unsigned kWarp = 0xffffffffu;
  static constexpr int kSteps = kTileRows / Rows::kRowsAtOnce;
  static_assert(kTileRows == RowTiles::kRows && kTileRows == RowTiles::kColumns);

  __device__ __forceinline__ Rows rows_of(int stage, int matrix) const {
    return {stages_ + (2 * stage + matrix) * Rows::kBytes};
  }

  /// Requests the rows of nodes that the columns of a chunk name; zeros after their end.
  __device__ __forceinline__ void ask_rows(const Rows& to, const uint32_t (&columns)[kSteps],
                                           const Nodes<T>& nodes) const {
    const int packet = lane % Rows::kPackets;
    const auto* packets = reinterpret_cast<const char*>(nodes.rows + packet * 8);
    const uint32_t pitch = static_cast<uint32_t>(nodes.pitch) * 2u;
    const int bytes = packet * 8 < nodes.width ? 16 : 0;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to.packet_at(step)),
                   "l"(packets + static_cast<uint64_t>(columns[step]) * pitch), "r"(bytes));
    }
  }

  uint32_t stages_;  ///< in shared memory
  const int32_t* chunks_;
  int begin_, end_;    ///< chunks of the tile
  unsigned left_out_;  ///< rows, a bit each
};

}  // namespace topomask::cuda

#pragma once

#include <climits>
#include <cstdint>

#include "core/cuda/shared_rows.cuh"

// Sixteen rows of a CSR matrix at once, on the tensor cores. Neighbouring rows name many columns in common: a warp
// lists the distinct columns of its rows, and works on the dense matrix of rows by listed columns, sixteen columns at a
// time, with zeros where there is no entry. Each row of nodes that a tile needs is read once for all of its rows.
//
// Entries are taken in rounds of at most kRoundEntries: all of them where they are so few; otherwise those of the next
// columns, whatever the row, so that no column is listed in two rounds. Columns ascend in each row.

namespace topomask::cuda {

inline constexpr int kRoundEntries = 256;
/// Sixteen listed columns are worked on while the next are on their way.
inline constexpr int kStages = 2;

/// Rows of nodes of `width` values, which start `pitch` values apart.
template <class T>
struct Nodes {
  const T* rows;
  int width;
  int64_t pitch;
};

template <int kWidth, int kSpan, int kMatrices>
struct TileMemory {
  static constexpr int kSlots = 2 * kRoundEntries;
  static_assert(kSpan % kTileRows == 0 && (kSpan + 8) % 16 == 8);
  /// Rows of two matrices of nodes for each stage; after the rounds, sums.
  alignas(256) unsigned char stages[kStages][2][SharedRows<kWidth>::kBytes];
  union {
    /// Dense matrices of rows by listed columns, kSpan of them at a time. The padding keeps a warp's reads of pairs
    /// apart.
    alignas(16) float matrices[kMatrices][kTileRows][kSpan + 8];
    /// Before: a hash table of columns.
    struct {
      alignas(16) int32_t keys[kSlots];
      alignas(16) uint32_t places[kSlots];  ///< the first entry that has the column, then its place among the listed
    } table;
  };
  int32_t columns[kRoundEntries + kTileRows];  ///< listed, and some column behind
  int next[kTileRows];                         ///< where each row goes on in the next round
};

/// The entries of a round that a lane looks after.
struct Round {
  static constexpr int kOwn = kRoundEntries / 32;
  int entry[kOwn];  ///< counted from the first of the tile
  int row[kOwn];    ///< in the tile; −1 for none
  int place[kOwn];  ///< of its column among the listed
  int columns;      ///< listed
};

/// A warp's sixteen rows; the block has no other threads.
template <class T, int kWidth, int kSpan, int kMatrices>
class RowTile {
 public:
  using Memory = TileMemory<kWidth, kSpan, kMatrices>;
  using Rows = SharedRows<kWidth>;
  static constexpr int kOwn = Round::kOwn;
  /// Of this thread, g and t as in multiply_add.
  const int lane = threadIdx.x, g = threadIdx.x / 4, t = threadIdx.x % 4;
  int64_t first_row, first_entry;
  int rows, entries;

  __device__ __forceinline__ RowTile(Memory& memory, const int64_t* offsets, int64_t tile, int64_t all_rows,
                                     int longest_short)
      : first_row(tile * kTileRows), memory_(memory) {
    rows = static_cast<int>(min(static_cast<int64_t>(kTileRows), all_rows - first_row));
    first_entry = offsets[first_row];
    const int row = min(lane, rows);
    start_ = static_cast<int>(offsets[first_row + row] - first_entry);
    end_ = static_cast<int>(offsets[first_row + min(row + 1, rows)] - first_entry);
    entries = __shfl_sync(kWarp, end_, kTileRows - 1);
    const bool left_out = end_ - start_ > longest_short;
    left_out_ = __ballot_sync(kWarp, left_out);
    if (left_out) start_ = end_;
  }

  /// Whether the tile has a row; long ones are left to blocks of their own.
  __device__ __forceinline__ bool has(int row) const { return row < rows && (left_out_ >> row & 1) == 0; }

  /// The tile's own rows of `nodes` as left operand. Rows that are not there are some row, and columns
  /// that are not there some columns: no one looks at the former, and the latter meet zeros.
  __device__ __forceinline__ void load_own(uint32_t (&words)[kWidth / 16][4], const Nodes<T>& nodes) const {
    const T* upper = nodes.rows + (first_row + min(g, rows - 1)) * nodes.pitch + 2 * t;
    const T* lower = nodes.rows + (first_row + min(g + 8, rows - 1)) * nodes.pitch + 2 * t;
#pragma unroll
    for (int packet = 0; packet < kWidth / 8; ++packet) {
      const int from = min(packet * 8, nodes.width - 8);
      words[packet / 2][packet % 2 * 2] = __ldg(reinterpret_cast<const uint32_t*>(upper + from));
      words[packet / 2][packet % 2 * 2 + 1] = __ldg(reinterpret_cast<const uint32_t*>(lower + from));
    }
  }

  /// f(round, values of its entries) for all entries of the tile, their columns listed. What value(entry) reads is
  /// asked for early; meanwhile() comes once, while the first of it is on its way.
  template <class Value, class Meanwhile, class F>
  __device__ __forceinline__ void for_rounds(const int32_t* columns, const Value& value, const Meanwhile& meanwhile,
                                             const F& f) {
    using V = decltype(value(0));
    columns += first_entry;
    int next = start_;
    bool first = true;
    while (const unsigned active = __ballot_sync(kWarp, next < end_ && lane < kTileRows)) {
      Round round;
      int32_t column[kOwn];
      V values[kOwn];
      const bool all = entries <= kRoundEntries && left_out_ == 0;
      if (all) {
        flat(round);
      } else {
        windows(round, active, next, share_bits(active));
      }
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        column[i] = round.row[i] >= 0 ? columns[round.entry[i]] : INT_MAX;
        values[i] = round.row[i] >= 0 ? value(round.entry[i]) : V{};
      }
      if (first) meanwhile();
      first = false;
      if (all) {
        next = end_;
      } else {
        next = end_of_round(round, column, columns, active, next);
      }
      list(round, column);
      f(round, values);
    }
  }

  /// Takes the listed columns of a round, kSpan at a time: fill(i, row, column) for the entries of each lane writes
  /// what the dense matrices hold; then, sixteen columns from `first` on at a time, each(first, rows of a, rows of b);
  /// then after(i, row, column) for the entries again.
  template <class Fill, class Each, class After>
  __device__ __forceinline__ void for_columns(const Round& round, const Nodes<T>& a, const Nodes<T>& b,
                                              const Fill& fill, const Each& each, const After& after) {
    for (int base = 0; base < round.columns; base += kSpan) {
      const int past = min(round.columns, base + kSpan);
      const auto ask = [&](int first, int stage) {
        if (first < past) ask_listed(rows_of(stage, 0), rows_of(stage, 1), first, a, b);
        asm volatile("cp.async.commit_group;");
      };
#pragma unroll
      for (int s = 0; s < kStages - 1; ++s) ask(base + s * kTileRows, s);
      clear_matrices();
      __syncwarp();
      for_entries(round, base, fill);
      int stage = 0;
      for (int first = base; first < past; first += kTileRows) {
        __syncwarp();
        ask(first + (kStages - 1) * kTileRows, (stage + kStages - 1) % kStages);
        asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 1));
        __syncwarp();
        each(first - base, rows_of(stage, 0), rows_of(stage, 1));
        stage = (stage + 1) % kStages;
      }
      __syncwarp();
      for_entries(round, base, after);
      __syncwarp();
    }
  }

  /// This thread's part of a dense matrix, sixteen columns from `first` on, as the results of two products have it.
  __device__ __forceinline__ void read(float (&values)[2][4], int matrix, int first) const {
#pragma unroll
    for (int block = 0; block < 2; ++block) {
      const int column = first + block * 8 + 2 * t;
      const float2 upper = *reinterpret_cast<const float2*>(&memory_.matrices[matrix][g][column]);
      const float2 lower = *reinterpret_cast<const float2*>(&memory_.matrices[matrix][g + 8][column]);
      values[block][0] = upper.x, values[block][1] = upper.y, values[block][2] = lower.x, values[block][3] = lower.y;
    }
  }
  __device__ __forceinline__ void write(const float (&values)[2][4], int matrix, int first) const {
#pragma unroll
    for (int block = 0; block < 2; ++block) {
      const int column = first + block * 8 + 2 * t;
      *reinterpret_cast<float2*>(&memory_.matrices[matrix][g][column]) = {values[block][0], values[block][1]};
      *reinterpret_cast<float2*>(&memory_.matrices[matrix][g + 8][column]) = {values[block][2], values[block][3]};
    }
  }

  /// The tile's own rows of a matrix [., width]: row g of the sums times `upper`, row g + 8 times `lower`.
  __device__ __forceinline__ void store_own(T* to, int width, const float (&sums)[kWidth / 8][4], float upper = 1,
                                            float lower = 1) {
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
      *reinterpret_cast<uint4*>(to + (first_row + row) * width + packet * 8) =
          load_shared(staged.base + Rows::at(row, packet));
    }
  }

 private:
  static constexpr unsigned kWarp = 0xffffffffu;
  static constexpr int32_t kFree = -1;

  __device__ __forceinline__ Rows rows_of(int stage, int matrix) const {
    return {shared_address(memory_.stages[stage][matrix])};
  }

  __device__ __forceinline__ void clear_matrices() const {
    constexpr int kCount = sizeof(memory_.matrices) / sizeof(float4);
    float4* all = reinterpret_cast<float4*>(memory_.matrices);
#pragma unroll 4
    for (int e = lane; e < kCount; e += 32) all[e] = {0, 0, 0, 0};
  }

  template <class F>
  static __device__ __forceinline__ void for_entries(const Round& round, int base, const F& f) {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int column = round.place[i] - base;
      if (round.row[i] >= 0 && column >= 0 && column < kSpan) f(i, round.row[i], column);
    }
  }

  /// All entries of the tile, one after the other.
  __device__ __forceinline__ void flat(Round& round) const {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int entry = i * 32 + lane;
      int row = 0;
#pragma unroll
      for (int step = kTileRows / 2; step > 0; step /= 2) {
        if (__shfl_sync(kWarp, start_, row + step) <= entry) row += step;
      }
      round.row[i] = entry < entries ? row : -1;
      round.entry[i] = entry;
    }
  }

  /// How many entries each row has in a round, a power of two.
  static __device__ __forceinline__ int share_bits(unsigned active) {
    static_assert(kRoundEntries == 1 << 8);
    return 8 - (32 - __clz(__popc(active) - 1));
  }
  /// As many entries of each of the rows in `active`, from `next` on.
  __device__ __forceinline__ void windows(Round& round, unsigned active, int next, int share_bits) const {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int number = i * 32 + lane, which = number >> share_bits;
      int row = which;
      if (active != (1u << kTileRows) - 1) {
        row = 0;  // the one with `which` active ones before it
#pragma unroll
        for (int step = kTileRows / 2; step > 0; step /= 2) {
          if (__popc(active & ((1u << (row + step)) - 1)) <= which) row += step;
        }
      }
      const int entry = __shfl_sync(kWarp, next, row) + (number & ((1 << share_bits) - 1));
      const int end = __shfl_sync(kWarp, end_, row);
      round.row[i] = which < __popc(active) && entry < end ? row : -1;
      round.entry[i] = entry;
    }
  }
  /// Leaves in the round what is below the first column that no row's window reaches; where the next one starts.
  __device__ __forceinline__ int end_of_round(Round& round, const int32_t (&column)[kOwn], const int32_t* columns,
                                              unsigned active, int next) const {
    const int share = 1 << share_bits(active), behind = next + share;
    const bool more = (active >> lane & 1) != 0 && behind < end_;
    const int limit = __reduce_min_sync(kWarp, more ? columns[behind] : INT_MAX);
    if (lane < kTileRows) memory_.next[lane] = next;
    __syncwarp();
    unsigned later = 0;  // the presence of the entries of the step behind
#pragma unroll
    for (int i = kOwn - 1; i >= 0; --i) {
      if (column[i] >= limit) round.row[i] = -1;
      const bool present = round.row[i] >= 0;
      const unsigned here = __ballot_sync(kWarp, present);
      const bool following = lane < 31 ? here >> (lane + 1) & 1 : later & 1;
      const bool ends = ((i * 32 + lane + 1) & (share - 1)) == 0;
      if (present && (ends || !following)) memory_.next[round.row[i]] = round.entry[i] + 1;
      later = here;
    }
    __syncwarp();
    return lane < kTileRows ? memory_.next[lane] : end_;
  }

  /// Lists the distinct columns of a round, in an order that is the same from run to run.
  __device__ __forceinline__ void list(Round& round, const int32_t (&column)[kOwn]) const {
    constexpr int kCount = sizeof(memory_.table) / sizeof(int4);
    int4* all = reinterpret_cast<int4*>(&memory_.table);
    static_assert(kFree == -1);  // and no entry is numbered UINT_MAX
#pragma unroll
    for (int e = 0; e < kCount / 32; ++e) all[e * 32 + lane] = {-1, -1, -1, -1};
    __syncwarp();
    int32_t* keys = memory_.table.keys;
    uint32_t* places = memory_.table.places;
    unsigned pending = 0;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      static_assert(Memory::kSlots == 1 << 9);
      round.place[i] = static_cast<int>(static_cast<uint32_t>(column[i]) * 0x9E3779B1u >> (32 - 9));
      const int32_t key = round.row[i] >= 0 ? atomicCAS(keys + round.place[i], kFree, column[i]) : kFree;
      if (key != kFree && key != column[i]) pending |= 1u << i;
    }
    while (__any_sync(kWarp, pending != 0)) {
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        const bool mine = pending >> i & 1;
        if (!__any_sync(kWarp, mine)) continue;  // few are
        if (!mine) continue;
        round.place[i] = (round.place[i] + 1) % Memory::kSlots;
        const int32_t key = atomicCAS(keys + round.place[i], kFree, column[i]);
        if (key == kFree || key == column[i]) pending &= ~(1u << i);
      }
    }
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      if (round.row[i] >= 0) atomicMin(places + round.place[i], static_cast<uint32_t>(i * 32 + lane));
    }
    __syncwarp();
    unsigned firsts = 0;
    int listed = 0;
    int own[kOwn];
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const bool first = round.row[i] >= 0 && places[round.place[i]] == static_cast<uint32_t>(i * 32 + lane);
      const unsigned all_first = __ballot_sync(kWarp, first);
      own[i] = listed + __popc(all_first & ((1u << lane) - 1));
      firsts |= first ? 1u << i : 0u;
      listed += __popc(all_first);
    }
    round.columns = listed;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      if ((firsts >> i & 1) == 0) continue;
      places[round.place[i]] = static_cast<uint32_t>(own[i]);
      memory_.columns[own[i]] = column[i];
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      if (round.row[i] >= 0) round.place[i] = static_cast<int>(places[round.place[i]]);
    }
    if (lane < kTileRows) memory_.columns[listed + lane] = memory_.columns[0];
    __syncwarp();
  }

  /// Asks for the rows that sixteen listed columns name, from `first` on, of two kinds of nodes; zeros behind their
  /// end.
  __device__ __forceinline__ void ask_listed(const Rows& a_rows, const Rows& b_rows, int first, const Nodes<T>& a,
                                             const Nodes<T>& b) const {
    const int packet = lane % Rows::kPackets;
    constexpr int kSteps = kTileRows / Rows::kRowsAtOnce;
    uint32_t column[kSteps];
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      column[step] = memory_.columns[first + lane / Rows::kPackets + step * Rows::kRowsAtOnce];
    }
    const auto ask = [&](const Rows& to, const Nodes<T>& nodes) {
      const auto* packets = reinterpret_cast<const char*>(nodes.rows + packet * 8);
      const auto pitch = static_cast<uint32_t>(nodes.pitch) * 2u;
      const int bytes = packet * 8 < nodes.width ? 16 : 0;
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to.packet_at(step)),
                     "l"(packets + static_cast<uint64_t>(column[step]) * pitch), "r"(bytes));
      }
    };
    ask(a_rows, a);
    ask(b_rows, b);
  }

  Memory& memory_;
  int start_, end_;    ///< of row `lane`, counted from the tile's first entry
  unsigned left_out_;  ///< rows, a bit each
};

}  // namespace topomask::cuda

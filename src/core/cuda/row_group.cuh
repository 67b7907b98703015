#pragma once

#include <type_traits>
#include <utility>

#include "core/cuda/packet.cuh"
#include "core/cuda/tensor_core.cuh"

// A group of kLanes threads of a warp works on one row of a CSR matrix, kBatch of its entries at a time: a thread holds
// kChunks packets of each row of nodes, and lane l knows entry l mod kBatch of the batch. The groups of a warp go in
// step, however long their rows are: every shuffle is one of the whole warp, which is far cheaper than one of a part.

namespace topomask::cuda {

inline constexpr int kBatch = 4;
inline constexpr int kThreads = 128;

/// f(0), …, f(n − 1) with compile-time arguments: arrays they index stay in registers.
template <int n, class F>
__device__ __forceinline__ void unrolled(const F& f) {
  [&]<int... i>(std::integer_sequence<int, i...>) __attribute__((always_inline)) {
    (f(std::integral_constant<int, i>{}), ...);
  }
  (std::make_integer_sequence<int, n>{});
}

/// Up to kBatch entries of a row: how many, and what this lane knows of its own.
struct Batch {
  int count;
  int place;       ///< in the row; that of the last entry where `present` is false
  int32_t column;  ///< likewise
  bool present;
};

template <class T, int kLanes, int kChunks>
class RowGroup {
 public:
  using A = Accumulated<T>;
  static constexpr int kPacket = Packet<T>::kSize;
  static constexpr int kHeld = kChunks * kPacket;
  static_assert(kLanes >= kBatch);

  /// A thread's part of a row of nodes, as it is stored.
  struct Part {
    Packet<T> packets[kChunks];
    __device__ __forceinline__ A operator[](int i) const { return packets[i / kPacket][i % kPacket]; }
  };
  /// The same in the type that sums are made in.
  struct Sum {
    A x[kHeld] = {};
    __device__ __forceinline__ void add(A weight, const Part& part) {
#pragma unroll
      for (int i = 0; i < kHeld; ++i) x[i] += weight * part[i];
    }
    __device__ __forceinline__ void scale(A factor) {
#pragma unroll
      for (int i = 0; i < kHeld; ++i) x[i] *= factor;
    }
  };
  /// Rows of 16-bit values that a quarter of a warp holds: their dot products come from the tensor cores.
  static constexpr bool kTensorCore = sizeof(T) == 2 && kLanes == 8 && kChunks == 1;
  /// A row of nodes as the left factor of dot products.
  using Left = std::conditional_t<kTensorCore, TensorCoreRows<T>, Part>;

  __device__ __forceinline__ RowGroup() : lane_(threadIdx.x % kLanes) {}

  __device__ __forceinline__ bool leads() const {
    return lane_ == 0;
  }
  /// The entry of a batch that this lane knows; where several lanes know one, the first has it to write.
  __device__ __forceinline__ int known() const {
    return lane_ % kBatch;
  }
  __device__ __forceinline__ bool writes() const {
    return lane_ < kBatch;
  }

  /// The part of a row of `width` values; zeros past its end.
  __device__ __forceinline__ Part load(const T* row, int width) const {
    Part part;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const int column = (c * kLanes + lane_) * kPacket;
      if (column < width) part.packets[c] = Packet<T>::load(row + column);
    }
    return part;
  }

  /// Where this thread reads in the rows of a matrix [., width] of rows `stride` bytes apart. Past the end of a row it
  /// reads the first packet again: what it is multiplied with is zero, or is not stored.
  struct Reader {
    const char* at[kChunks];
    uint32_t stride;
    __device__ __forceinline__ Part load(uint32_t row, bool wanted) const {
      Part part;
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        const auto* packet = reinterpret_cast<const T*>(at[c] + static_cast<uint64_t>(row) * stride);
        if (wanted) part.packets[c] = Packet<T>::load(packet);
      }
      return part;
    }
  };
  __device__ __forceinline__ Reader reader(const T* rows, int64_t stride, int width) const {
    Reader made;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const int column = (c * kLanes + lane_) * kPacket;
      made.at[c] = reinterpret_cast<const char*>(rows + (column < width ? column : 0));
    }
    made.stride = static_cast<uint32_t>(stride * sizeof(T));
    return made;
  }

  __device__ __forceinline__ void store(T* row, int width, const Sum& sum) const {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const int column = (c * kLanes + lane_) * kPacket;
      if (column < width) Packet<T>::store(row + column, reinterpret_cast<const A(&)[kPacket]>(sum.x[c * kPacket]));
    }
  }

  /// The rows of one or two matrices that a batch of entries names, zeros for those it lacks.
  __device__ __forceinline__ void load_batch(const Batch& batch, const Reader& a, Part (&a_parts)[kBatch]) const {
    unrolled<kBatch>([&](auto index) {
      constexpr int s = decltype(index)::value;
      a_parts[s] = a.load(from(batch.column, s), s < batch.count);
    });
  }
  __device__ __forceinline__ void load_batch(const Batch& batch, const Reader& a, Part (&a_parts)[kBatch],
                                             const Reader& b, Part (&b_parts)[kBatch]) const {
    uint32_t columns[kBatch];
    unrolled<kBatch>([&](auto index) {
      constexpr int s = decltype(index)::value;
      columns[s] = from(batch.column, s);
      a_parts[s] = a.load(columns[s], s < batch.count);
    });
    unrolled<kBatch>([&](auto index) {
      constexpr int s = decltype(index)::value;
      b_parts[s] = b.load(columns[s], s < batch.count);
    });
  }

  __device__ __forceinline__ Left left(const Part& part) const {
    if constexpr (kTensorCore) {
      return TensorCoreRows<T>(part.packets[0].raw);
    } else {
      return part;
    }
  }

  /// a · parts[l mod kBatch] in lane l. The kBatch sums are made together: at each step a thread passes on the half it
  /// does not keep, which takes as many shuffles as there are entries, not log₂ kLanes times as many.
  __device__ __forceinline__ A dots(const Left& a, const Part (&parts)[kBatch]) const {
    A partial[kBatch];
    unrolled<kBatch>([&](auto index) {
      constexpr int s = decltype(index)::value;
      if constexpr (kTensorCore) {
        partial[s] = a.dot(parts[s].packets[0].raw);
      } else {
        partial[s] = partial_dot(a, parts[s]);
      }
    });
    if constexpr (kTensorCore) {
      A known_one = partial[0];
#pragma unroll
      for (int s = 1; s < kBatch; ++s) known_one = known() == s ? partial[s] : known_one;
      return known_one;
    } else {
      return sum_over_groups_of_batch(transposed_sum<kBatch / 2>(partial));
    }
  }

  /// total += Σ_s weight_s parts[s], where lane s brings weight_s.
  __device__ __forceinline__ void gather(Sum& total, A weight, const Part (&parts)[kBatch]) const {
    unrolled<kBatch>([&](auto index) {
      constexpr int s = decltype(index)::value;
      total.add(from(weight, s), parts[s]);
    });
  }

  /// ⟨∂L/∂out, out⟩ of a row. An output beyond the range of its type is infinite; where nothing depends on it, it adds
  /// nothing.
  __device__ __forceinline__ A gradient_dot(const Part& grad, const Part& out) const {
    A sum = 0;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) sum += grad[i] != A(0) ? grad[i] * out[i] : A(0);
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(kWarp, sum, step);
    return sum;
  }

  /// Over the entries of a batch, for a value that lane l has for entry l mod kBatch.
  __device__ __forceinline__ A batch_sum(A value) const {
#pragma unroll
    for (int step = kBatch / 2; step > 0; step /= 2) value += __shfl_xor_sync(kWarp, value, step);
    return value;
  }
  __device__ __forceinline__ A batch_max(A value) const {
#pragma unroll
    for (int step = kBatch / 2; step > 0; step /= 2) {
      const A other = __shfl_xor_sync(kWarp, value, step);
      value = other > value ? other : value;
    }
    return value;
  }

  /// f(batch) for the `count` entries of a row with these columns, in step with the other groups of the warp. Columns
  /// are asked for one batch ahead. Most batches of long rows are full for all groups: those take a path of their own,
  /// where nothing is asked of an entry. Where one group has entries, columns[0] exists for all.
  template <class F>
  __device__ __forceinline__ void for_batches(int count, const int32_t* columns, const F& f) const {
    const int most = __reduce_max_sync(kWarp, count), least = __reduce_min_sync(kWarp, count);
    if (most == 0) return;
    const int last = max(count - 1, 0);
    int base = 0;
    int32_t column = columns[min(known(), last)];
    const auto step = [&](int present, bool full) __attribute__((always_inline)) {
      const int place = base + known();
      const int32_t here = column;
      column = columns[min(place + kBatch, last)];
      f(Batch{present, full ? place : min(place, last), here, full || place < count});
    };
    for (; base + kBatch <= least; base += kBatch) step(kBatch, true);
    for (; base < most; base += kBatch) step(count - base, false);
  }

 private:
  static constexpr unsigned kWarp = 0xffffffffu;

  template <class V>
  static __device__ __forceinline__ V from(V value, int source) {
    return __shfl_sync(kWarp, value, source, kLanes);
  }

  static __device__ __forceinline__ A partial_dot(const Part& a, const Part& b) {
    A dot = 0;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) dot += a[i] * b[i];
    return dot;
  }

  /// partial[l mod kBatch], summed over the kBatch lanes that differ in the last bits of the lane only, in lane l.
  template <int kStep>
  __device__ __forceinline__ A transposed_sum(A (&partial)[kBatch]) const {
    const bool upper = lane_ & kStep;
    unrolled<kStep>([&](auto index) {
      constexpr int s = decltype(index)::value;
      const A passed = upper ? partial[s] : partial[s + kStep];
      const A kept = upper ? partial[s + kStep] : partial[s];
      partial[s] = kept + __shfl_xor_sync(kWarp, passed, kStep);
    });
    if constexpr (kStep > 1) {
      return transposed_sum<kStep / 2>(partial);
    } else {
      return partial[0];
    }
  }

  __device__ __forceinline__ A sum_over_groups_of_batch(A value) const {
#pragma unroll
    for (int step = kBatch; step < kLanes; step *= 2) value += __shfl_xor_sync(kWarp, value, step);
    return value;
  }

  int lane_;
};

/// Which row of which slice the group of this thread has, of a matrix in CSR. A group without one goes along, with no
/// entries.
struct Place {
  int64_t slice, row;
  int64_t first;  ///< where the row's entries start in the arrays of the matrix; 0 where it has none
  int count;
  bool valid;

  __device__ __forceinline__ Place(const int64_t* offsets, int64_t rows, int64_t slices, int lanes) {
    const int64_t group = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / lanes;
    valid = group < rows * slices;
    if (rows * slices <= UINT32_MAX) {  // a division of 64 bits takes longer than a short row
      slice = valid ? static_cast<uint32_t>(group) / static_cast<uint32_t>(rows) : 0;
    } else {
      slice = valid ? group / rows : 0;
    }
    row = valid ? group - slice * rows : 0;
    first = offsets[row];
    count = valid ? static_cast<int>(offsets[row + 1] - first) : 0;
    if (count == 0) first = 0;
  }

  /// Part `part` of so many of the entries of a row.
  __device__ __forceinline__ Place(const int64_t* offsets, int64_t row, int64_t slice, int part, int parts)
      : slice(slice), row(row), valid(true) {
    const int64_t start = offsets[row], entries = offsets[row + 1] - start;
    first = start + entries * part / parts;
    count = static_cast<int>(start + entries * (part + 1) / parts - first);
    if (count == 0) first = 0;
  }

  /// Nothing where the row is long: a block of its own takes it.
  __device__ __forceinline__ Place unless_longer(int longest_short) const {
    Place place = *this;
    if (count > longest_short) {
      place.valid = false;
      place.count = 0;
      place.first = 0;
    }
    return place;
  }

  /// The same row, `distance` slices on; it has no entries past the last slice.
  __device__ __forceinline__ Place moved(int64_t distance, int64_t slices) const {
    Place place = *this;
    place.valid = valid && slice + distance < slices;
    place.slice = place.valid ? slice + distance : 0;
    if (!place.valid) place.count = 0;
    return place;
  }
};

}  // namespace topomask::cuda

#include <type_traits>

#include "ops/cuda/slice_ranges.h"
#include "ops/sparse_product/cuda_kernel.h"

namespace topomask::cuda {

namespace {

constexpr int kThreads = 256, kTile = 2048;  // entries of the product in shared memory, of all groups of a block

/// kLanes threads of a warp that take one row of one head.
template <int kLanes>
struct RowThreads {
  int lane = threadIdx.x % kLanes;
  int group = threadIdx.x / kLanes;
  int64_t row = static_cast<int64_t>(blockIdx.x) * (kThreads / kLanes) + group;
  int64_t head = blockIdx.y;
  unsigned mask = kLanes == 32 ? 0xFFFFFFFFu : ((1u << kLanes) - 1) << (threadIdx.x % 32 / kLanes * kLanes);

  __device__ __forceinline__ void sync() const { __syncwarp(mask); }
  template <class T>
  __device__ __forceinline__ T sum(T x) const {
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(mask, x, step);
    return x;
  }
};

/// Some columns in shared memory, each in a slot: a hash table, at most half full.
class HashedColumns {
 public:
  __device__ __forceinline__ HashedColumns(int32_t* keys, int count) : keys_(keys) {
    while ((1 << (32 - shift_)) < 2 * count) --shift_;
  }
  __device__ __forceinline__ int slots() const { return 1 << (32 - shift_); }
  __device__ __forceinline__ void clear(int slot) const { keys_[slot] = kFree; }

  /// Puts a column that is not there yet, the `number`-th; threads may do so at once.
  __device__ __forceinline__ int put(int32_t column, int) const {
    int slot = first(column);
    while (atomicCAS(keys_ + slot, kFree, column) != kFree) slot = next(slot);
    return slot;
  }
  /// The slot of a column, or −1.
  __device__ __forceinline__ int find(int32_t column) const {
    int slot = first(column);
    for (int32_t key = keys_[slot]; key != column; key = keys_[slot]) {
      if (key == kFree) return -1;
      slot = next(slot);
    }
    return slot;
  }

 private:
  static constexpr int32_t kFree = -1;
  __device__ __forceinline__ int first(int32_t column) const {
    return static_cast<int>(static_cast<uint32_t>(column) * 0x9E3779B1u >> shift_);
  }
  __device__ __forceinline__ int next(int slot) const { return slot + 1 & slots() - 1; }

  int32_t* keys_;
  int shift_ = 32 - 4;  // 16 slots at least
};

/// The same as they come, ascending: a search of a few takes less than the table does to be made.
class SortedColumns {
 public:
  __device__ __forceinline__ SortedColumns(int32_t* keys, int count) : keys_(keys), count_(count) {}
  __device__ __forceinline__ int slots() const { return 0; }
  __device__ __forceinline__ void clear(int) const {}
  __device__ __forceinline__ int put(int32_t column, int number) const {
    keys_[number] = column;
    return number;
  }
  __device__ __forceinline__ int find(int32_t column) const {
    int low = 0, high = count_;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (keys_[middle] < column) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low < count_ && keys_[low] == column ? low : -1;
  }

 private:
  int32_t* keys_;
  int count_;
};

/// A row of the product, so many entries at a time in shared memory, meets the rows of Bᵀ that the entries of A name,
/// one after the other, so that no two threads add to one sum. What is held are the sums of the product; or, for the
/// gradient of A, the slopes that the sums of its entries take from.
template <class T, int kLanes, bool kGradient>
__global__ void __launch_bounds__(kThreads) product_kernel(const ProductArgs<T> a) {
  constexpr int kGroups = kThreads / kLanes, kOwn = kTile / kGroups, kSlots = 2 * kOwn;
  __shared__ int32_t tile_columns[kGroups][kSlots];
  __shared__ T tile_values[kGroups][kSlots];
  const RowThreads<kLanes> threads;
  if (threads.row >= a.rows) return;
  T* held = tile_values[threads.group];
  const T* from = a.from + threads.head * (kGradient ? a.out_entries : a.a_entries);
  const T* values = a.bt_values + threads.head * a.b_entries;
  T* to = a.to + threads.head * (kGradient ? a.a_entries : a.out_entries);
  const int64_t first = a.out_offsets[threads.row], last = a.out_offsets[threads.row + 1];
  // Once at least: the gradient is written even where the product has no entry.
  for (int64_t tile = first; tile < last || tile == first; tile += kOwn) {
    const int count = static_cast<int>(last - tile < kOwn ? last - tile : kOwn);
    const std::conditional_t<kLanes == 32, HashedColumns, SortedColumns> columns(tile_columns[threads.group], count);
    for (int slot = threads.lane; slot < columns.slots(); slot += kLanes) columns.clear(slot);
    threads.sync();
    for (int e = threads.lane; e < count; e += kLanes) {
      const int slot = columns.put(a.out_columns[tile + e], e);
      held[slot] = kGradient ? from[a.out_index ? a.out_index[tile + e] : tile + e] : T(0);
    }
    threads.sync();
    for (int64_t e = a.a_offsets[threads.row]; e < a.a_offsets[threads.row + 1]; ++e) {
      const int32_t c = a.a_columns[e];
      const T scale = kGradient ? T(0) : from[e];
      T sum = 0;
      for (int64_t k = a.bt_offsets[c] + threads.lane; k < a.bt_offsets[c + 1]; k += kLanes) {
        const int slot = columns.find(a.bt_columns[k]);
        if (slot < 0) continue;
        if constexpr (kGradient) {
          sum += held[slot] * values[k];
        } else {
          held[slot] += scale * values[k];
        }
      }
      if constexpr (kGradient) {
        sum = threads.sum(sum);
        if (threads.lane == 0) to[e] = tile == first ? sum : to[e] + sum;
      } else {
        threads.sync();
      }
    }
    for (int e = threads.lane; !kGradient && e < count; e += kLanes) {
      to[tile + e] = held[columns.find(a.out_columns[tile + e])];
    }
    threads.sync();
  }
}

/// Short rows of Bᵀ leave most of a warp idle.
template <bool kGradient, class T>
void launch(const ProductArgs<T>& args, cudaStream_t stream) {
  if (args.rows == 0 || args.heads == 0) return;
  const bool few = args.b_entries <= 8 * args.rows;
  const int64_t per_block = kThreads / (few ? 8 : 32);
  const auto blocks = static_cast<unsigned>((args.rows + per_block - 1) / per_block);
  const auto kernel = few ? product_kernel<T, 8, kGradient> : product_kernel<T, 32, kGradient>;
  for_slice_ranges(args.heads, [&](int64_t head, unsigned count) {
    ProductArgs<T> some = args;
    some.from += head * (kGradient ? args.out_entries : args.a_entries);
    some.bt_values += head * args.b_entries;
    some.to += head * (kGradient ? args.a_entries : args.out_entries);
    kernel<<<dim3(blocks, count), kThreads, 0, stream>>>(some);
  });
}

}  // namespace

template <class T>
void product(const ProductArgs<T>& args, cudaStream_t stream) {
  launch<false>(args, stream);
}

template <class T>
void product_grad(const ProductArgs<T>& args, cudaStream_t stream) {
  launch<true>(args, stream);
}

template void product(const ProductArgs<float>&, cudaStream_t);
template void product(const ProductArgs<double>&, cudaStream_t);
template void product_grad(const ProductArgs<float>&, cudaStream_t);
template void product_grad(const ProductArgs<double>&, cudaStream_t);

}  // namespace topomask::cuda

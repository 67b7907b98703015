#include <cub/device/device_segmented_sort.cuh>

#include "ops/walk_table/cuda_kernel.h"

namespace topomask::cuda {

namespace {

constexpr int kWarp = 32, kThreads = 256;

struct Row {
  int64_t row, begin, end;
  int lane;
  __device__ __forceinline__ Row(const int64_t* offsets, int64_t rows)
      : row((static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / kWarp),
        begin(row < rows ? offsets[row] : 0),
        end(row < rows ? offsets[row + 1] : 0),
        lane(threadIdx.x % kWarp) {}
};

/// A warp sorts a row by a bitonic network over the next power of two. The place of a visit stands in the bits below
/// its key, which makes it stable and leads to the load.
template <class T>
__global__ void sort_rows_kernel(const uint64_t* keys, uint64_t* sorted_keys, const T* loads, T* sorted_loads,
                                 int64_t rows, const int64_t* row_offsets, int capacity) {
  extern __shared__ uint64_t room[];
  constexpr int kPlaceBits = 10;
  static_assert(kShortRow <= 1 << kPlaceBits && 31 + kHopBits + kPlaceBits <= 64);
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * warps + warp;
  if (row >= rows) return;
  uint64_t* own = room + warp * capacity;
  const int64_t begin = row_offsets[row];
  const auto count = static_cast<int>(row_offsets[row + 1] - begin);
  int size = 1;
  while (size < count) size *= 2;
  for (int e = lane; e < size; e += kWarp) {
    own[e] = e < count ? keys[begin + e] << kPlaceBits | static_cast<uint32_t>(e) : ~uint64_t{0};
  }
  for (int block = 2; block <= size; block *= 2) {
    for (int step = block / 2; step > 0; step /= 2) {
      __syncwarp();
      for (int pair = lane; pair < size / 2; pair += kWarp) {
        const int low = 2 * step * (pair / step) + pair % step, high = low + step;
        const uint64_t a = own[low], b = own[high];
        if ((a > b) == ((low & block) == 0)) {
          own[low] = b;
          own[high] = a;
        }
      }
    }
  }
  __syncwarp();
  for (int e = lane; e < count; e += kWarp) {
    sorted_keys[begin + e] = own[e] >> kPlaceBits;
    sorted_loads[begin + e] = loads[begin + static_cast<int64_t>(own[e] & ((1u << kPlaceBits) - 1))];
  }
}

__global__ void heads_kernel(const uint64_t* keys, const int64_t* row_offsets, int64_t rows, int64_t* heads) {
  const Row row(row_offsets, rows);
  for (int64_t v = row.begin + row.lane; v < row.end; v += kWarp) {
    const uint64_t key = keys[v], before = v > row.begin ? keys[v - 1] : ~key;
    heads[v] = (static_cast<int64_t>(key != before) << 32) + (key >> kHopBits != before >> kHopBits);
  }
}

template <class T>
__global__ void collect_kernel(const TableArgs<T> a) {
  const Row row(a.row_offsets, a.rows);
  for (int64_t v = row.begin + row.lane; v < row.end; v += kWarp) {
    const uint64_t key = a.keys[v];
    const bool first = v == row.begin;
    const int64_t triple = (a.heads[v] >> 32) - 1, entry = (a.heads[v] & 0xFFFFFFFF) - 1;
    if (!first && a.keys[v - 1] == key) continue;
    // One after the other, by walker: the order of the sum is fixed.
    T load = 0;
    int64_t end = v;
    for (; end < row.end && a.keys[end] == key; ++end) load += a.visit_loads[end];
    const auto column = static_cast<int32_t>(key >> kHopBits);
    a.columns[triple] = column;
    a.hops[triple] = static_cast<int16_t>(key & ((1u << kHopBits) - 1));
    a.loads[triple] = load;
    a.counts[triple] = static_cast<int32_t>(end - v);
    if (first) {
      a.offsets[row.row] = triple;
      a.entry_offsets[row.row] = entry;
    }
    if (first || a.keys[v - 1] >> kHopBits != key >> kHopBits) {
      a.entry_columns[entry] = column;
      a.feature_offsets[entry] = triple;
    }
  }
  if (row.row == a.rows && row.lane == 0) {
    a.offsets[a.rows] = a.triples;
    a.entry_offsets[a.rows] = a.entries;
    a.feature_offsets[a.entries] = a.triples;
  }
}

unsigned row_blocks(int64_t rows) {
  return static_cast<unsigned>((rows * kWarp + kThreads - 1) / kThreads);
}

}  // namespace

template <class T>
void sort_short_rows(const uint64_t* keys, uint64_t* sorted_keys, const T* loads, T* sorted_loads, int64_t rows,
                     const int64_t* row_offsets, int64_t longest, cudaStream_t stream) {
  if (rows == 0) return;
  int capacity = 1;
  while (capacity < longest) capacity *= 2;
  constexpr int kWarps = 4;  // 32 KiB at most
  const auto blocks = static_cast<unsigned>((rows + kWarps - 1) / kWarps);
  sort_rows_kernel<T><<<blocks, kWarps * kWarp, kWarps * capacity * sizeof(uint64_t), stream>>>(
      keys, sorted_keys, loads, sorted_loads, rows, row_offsets, capacity);
}

template <class T>
size_t sort_visits(void* temporary, size_t bytes, const uint64_t* keys, uint64_t* sorted_keys, const T* loads,
                   T* sorted_loads, int64_t visits, int64_t rows, const int64_t* row_offsets, cudaStream_t stream) {
  cub::DeviceSegmentedSort::StableSortPairs(temporary, bytes, keys, sorted_keys, loads, sorted_loads, visits, rows,
                                            row_offsets, row_offsets + 1, stream);
  return bytes;
}

void mark_heads(const uint64_t* keys, const int64_t* row_offsets, int64_t rows, int64_t* heads, cudaStream_t stream) {
  if (rows > 0) heads_kernel<<<row_blocks(rows), kThreads, 0, stream>>>(keys, row_offsets, rows, heads);
}

template <class T>
void collect_table(const TableArgs<T>& args, cudaStream_t stream) {
  collect_kernel<T><<<row_blocks(args.rows + 1), kThreads, 0, stream>>>(args);
}

#define TOPOMASK_TABLE(T)                                                                                   \
  template void sort_short_rows(const uint64_t*, uint64_t*, const T*, T*, int64_t, const int64_t*, int64_t, \
                                cudaStream_t);                                                              \
  template size_t sort_visits(void*, size_t, const uint64_t*, uint64_t*, const T*, T*, int64_t, int64_t,    \
                              const int64_t*, cudaStream_t);                                                \
  template void collect_table(const TableArgs<T>&, cudaStream_t);
TOPOMASK_TABLE(float)
TOPOMASK_TABLE(double)

}  // namespace topomask::cuda

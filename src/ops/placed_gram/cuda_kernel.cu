#include "ops/cuda/slice_ranges.h"
#include "ops/placed_gram/cuda_kernel.h"

namespace topomask::cuda {

namespace {

constexpr int kWarp = 32, kThreads = 128, kLanes = 16, kGroups = kThreads / kLanes;
constexpr int kNarrow = 256, kHeld = 512;  // rows with places of one byte; the longest row

__global__ void bytes_kernel(const PlacePatterns p, int64_t longest, int64_t* bytes) {
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / kWarp;
  const int lane = threadIdx.x % kWarp;
  if (row >= p.rows) return;
  int64_t products = 0;
  for (int64_t e = p.a_offsets[row] + lane; e < p.a_offsets[row + 1]; e += kWarp) {
    products += p.t_offsets[p.a_columns[e] + 1] - p.t_offsets[p.a_columns[e]];
  }
  for (int step = kWarp / 2; step > 0; step /= 2) products += __shfl_xor_sync(0xffffffffu, products, step);
  const int64_t entries = p.out_offsets[row + 1] - p.out_offsets[row];
  // Even, so that places of two bytes are aligned.
  if (lane == 0) bytes[row] = entries > longest ? -1 : entries > kNarrow ? 2 * products : (products + 1) / 2 * 2;
}

template <class Place>
__device__ void write_row(const PlacePatterns& p, int64_t row, int lane, Place* places) {
  const int64_t first = p.out_offsets[row], last = p.out_offsets[row + 1];
  for (int64_t e = p.a_offsets[row]; e < p.a_offsets[row + 1]; ++e) {
    const int64_t begin = p.t_offsets[p.a_columns[e]], end = p.t_offsets[p.a_columns[e] + 1];
    for (int64_t k = begin + lane; k < end; k += kWarp) {
      const int32_t column = p.t_columns[k];
      int64_t low = first, high = last;
      while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (p.out_columns[middle] < column) {
          low = middle + 1;
        } else {
          high = middle;
        }
      }
      places[k - begin] = static_cast<Place>(low - first);
    }
    places += end - begin;
  }
}

__global__ void places_kernel(const PlacePatterns p, const int64_t* starts, uint8_t* places) {
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / kWarp;
  const int lane = threadIdx.x % kWarp;
  if (row >= p.rows) return;
  if (p.out_offsets[row + 1] - p.out_offsets[row] > kNarrow) {
    write_row(p, row, lane, reinterpret_cast<uint16_t*>(places + starts[row]));
  } else {
    write_row(p, row, lane, places + starts[row]);
  }
}

/// Some threads a row, whose sums, or the slopes of its sums, they hold in shared memory. The entries of A come one
/// after the other, so that no two threads add to one sum.
template <class T, class Place, bool kGradient>
__device__ __forceinline__ void placed_row(const PlacedArgs<T>& a, int64_t row, int lane, unsigned mask, T* held) {
  const PlacePatterns& p = a.patterns;
  const int64_t first = p.out_offsets[row], head = blockIdx.y;
  const int count = static_cast<int>(p.out_offsets[row + 1] - first);
  const T* from = a.from + head * (kGradient ? a.out_entries : a.a_entries);
  T* to = a.to + head * (kGradient ? a.a_entries : a.out_entries);
  const T* values = a.t_values + head * a.a_entries;
  for (int e = lane; e < count; e += kLanes) {
    held[e] = kGradient ? from[first + e] + from[p.out_mirror[first + e]] : T(0);
  }
  __syncwarp(mask);
  const Place* places = reinterpret_cast<const Place*>(a.places + a.starts[row]);
  const int64_t begin = p.a_offsets[row], end = p.a_offsets[row + 1];
  for (int64_t block = begin; block < end; block += kLanes) {
    int64_t start = 0;
    int length = 0;
    T scale = 0, own = 0;
    if (block + lane < end) {
      const int32_t c = p.a_columns[block + lane];
      start = p.t_offsets[c];
      length = static_cast<int>(p.t_offsets[c + 1] - start);
      if (!kGradient) scale = from[block + lane];
    }
    const int here = static_cast<int>(end - block < kLanes ? end - block : kLanes);
    for (int x = 0; x < here; ++x) {
      const T* column = values + __shfl_sync(mask, start, x, kLanes);
      const int entries = __shfl_sync(mask, length, x, kLanes);
      if constexpr (kGradient) {
        T sum = 0;
        for (int k = lane; k < entries; k += kLanes) sum += held[places[k]] * column[k];
        for (int step = kLanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(mask, sum, step, kLanes);
        if (lane == x) own = sum;
      } else {
        const T factor = __shfl_sync(mask, scale, x, kLanes);
        for (int k = lane; k < entries; k += kLanes) held[places[k]] += factor * column[k];
        __syncwarp(mask);
      }
      places += entries;
    }
    if (kGradient && lane < here) to[block + lane] = own;
  }
  for (int e = lane; !kGradient && e < count; e += kLanes) to[first + e] = held[e];
}

template <class T, bool kGradient>
__global__ void __launch_bounds__(kThreads) placed_kernel(const PlacedArgs<T> a) {
  __shared__ T held[kGroups][kHeld];
  const int group = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kGroups + group;
  if (row >= a.patterns.rows) return;
  const unsigned mask = ((1u << kLanes) - 1) << (threadIdx.x % kWarp / kLanes * kLanes);
  if (a.patterns.out_offsets[row + 1] - a.patterns.out_offsets[row] > kNarrow) {
    placed_row<T, uint16_t, kGradient>(a, row, lane, mask, held[group]);
  } else {
    placed_row<T, uint8_t, kGradient>(a, row, lane, mask, held[group]);
  }
}

unsigned row_blocks(int64_t rows) {
  return static_cast<unsigned>((rows * kWarp + kThreads - 1) / kThreads);
}

template <bool kGradient, class T>
void launch_placed(const PlacedArgs<T>& args, cudaStream_t stream) {
  if (args.patterns.rows == 0 || args.heads == 0) return;
  const auto blocks = static_cast<unsigned>((args.patterns.rows + kGroups - 1) / kGroups);
  for_slice_ranges(args.heads, [&](int64_t head, unsigned count) {
    PlacedArgs<T> some = args;
    some.from += head * (kGradient ? args.out_entries : args.a_entries);
    some.t_values += head * args.a_entries;
    some.to += head * (kGradient ? args.a_entries : args.out_entries);
    placed_kernel<T, kGradient><<<dim3(blocks, count), kThreads, 0, stream>>>(some);
  });
}

}  // namespace

void place_bytes(const PlacePatterns& patterns, int64_t longest, int64_t* bytes, cudaStream_t stream) {
  if (patterns.rows > 0) bytes_kernel<<<row_blocks(patterns.rows), kThreads, 0, stream>>>(patterns, longest, bytes);
}

void write_places(const PlacePatterns& patterns, const int64_t* starts, uint8_t* places, cudaStream_t stream) {
  if (patterns.rows > 0) places_kernel<<<row_blocks(patterns.rows), kThreads, 0, stream>>>(patterns, starts, places);
}

template <class T>
void placed_product(const PlacedArgs<T>& args, cudaStream_t stream) {
  launch_placed<false>(args, stream);
}

template <class T>
void placed_gradient(const PlacedArgs<T>& args, cudaStream_t stream) {
  launch_placed<true>(args, stream);
}

template void placed_product(const PlacedArgs<float>&, cudaStream_t);
template void placed_product(const PlacedArgs<double>&, cudaStream_t);
template void placed_gradient(const PlacedArgs<float>&, cudaStream_t);
template void placed_gradient(const PlacedArgs<double>&, cudaStream_t);

}  // namespace topomask::cuda

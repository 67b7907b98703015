#include "masks/grf/product_cuda.h"

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

/// The place of `column` among `count` ascending ones, or −1.
__device__ __forceinline__ int place_of(int32_t column, const int32_t* columns, int count) {
  int low = 0, high = count;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (columns[middle] < column) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < count && columns[low] == column ? low : -1;
}

/// A row of the product, kTile entries at a time in shared memory; the entries of A one after the other, so that no two
/// threads add to one sum.
template <class T, int kLanes>
__global__ void __launch_bounds__(kThreads) product_kernel(const ProductArgs<T> a) {
  constexpr int kGroups = kThreads / kLanes, kOwn = kTile / kGroups;
  __shared__ int32_t tile_columns[kGroups][kOwn];
  __shared__ T tile_sums[kGroups][kOwn];
  const RowThreads<kLanes> threads;
  if (threads.row >= a.rows) return;
  int32_t* columns = tile_columns[threads.group];
  T* sums = tile_sums[threads.group];
  const T* from = a.from + threads.head * a.a_entries;
  const T* values = a.bt_values + threads.head * a.b_entries;
  T* to = a.to + threads.head * a.out_entries;
  const int64_t last = a.out_offsets[threads.row + 1];
  for (int64_t tile = a.out_offsets[threads.row]; tile < last; tile += kOwn) {
    const int count = static_cast<int>(last - tile < kOwn ? last - tile : kOwn);
    for (int e = threads.lane; e < count; e += kLanes) {
      columns[e] = a.out_columns[tile + e];
      sums[e] = 0;
    }
    threads.sync();
    for (int64_t e = a.a_offsets[threads.row]; e < a.a_offsets[threads.row + 1]; ++e) {
      const int32_t c = a.a_columns[e];
      const T scale = from[e];
      for (int64_t k = a.bt_offsets[c] + threads.lane; k < a.bt_offsets[c + 1]; k += kLanes) {
        const int place = place_of(a.bt_columns[k], columns, count);
        if (place >= 0) sums[place] += scale * values[k];
      }
      threads.sync();
    }
    for (int e = threads.lane; e < count; e += kLanes) to[tile + e] = sums[e];
    threads.sync();
  }
}

template <class T, int kLanes>
__global__ void __launch_bounds__(kThreads) product_grad_kernel(const ProductArgs<T> a) {
  constexpr int kGroups = kThreads / kLanes, kOwn = kTile / kGroups;
  __shared__ int32_t tile_columns[kGroups][kOwn];
  __shared__ T tile_values[kGroups][kOwn];
  const RowThreads<kLanes> threads;
  if (threads.row >= a.rows) return;
  int32_t* columns = tile_columns[threads.group];
  T* slopes = tile_values[threads.group];
  const T* from = a.from + threads.head * a.out_entries;
  const T* values = a.bt_values + threads.head * a.b_entries;
  T* to = a.to + threads.head * a.a_entries;
  const int64_t first = a.out_offsets[threads.row], last = a.out_offsets[threads.row + 1];
  for (int64_t tile = first; tile < last || tile == first; tile += kOwn) {
    const int count = static_cast<int>(last - tile < kOwn ? last - tile : kOwn);
    for (int e = threads.lane; e < count; e += kLanes) {
      columns[e] = a.out_columns[tile + e];
      slopes[e] = from[a.out_index ? a.out_index[tile + e] : tile + e];
    }
    threads.sync();
    for (int64_t e = a.a_offsets[threads.row]; e < a.a_offsets[threads.row + 1]; ++e) {
      const int32_t c = a.a_columns[e];
      T sum = 0;
      for (int64_t k = a.bt_offsets[c] + threads.lane; k < a.bt_offsets[c + 1]; k += kLanes) {
        const int place = place_of(a.bt_columns[k], columns, count);
        if (place >= 0) sum += slopes[place] * values[k];
      }
      sum = threads.sum(sum);
      if (threads.lane == 0) to[e] = tile == first ? sum : to[e] + sum;
    }
    threads.sync();
  }
}

/// Short rows of Bᵀ leave most of a warp idle.
template <class T, class Few, class Many>
void launch(const ProductArgs<T>& args, const Few& few, const Many& many, cudaStream_t stream) {
  if (args.rows == 0 || args.heads == 0) return;
  const int lanes = args.b_entries <= 8 * args.rows ? 8 : 32;
  const int64_t per_block = kThreads / lanes;
  const dim3 grid(static_cast<unsigned>((args.rows + per_block - 1) / per_block), static_cast<unsigned>(args.heads));
  if (lanes == 8) {
    few<<<grid, kThreads, 0, stream>>>(args);
  } else {
    many<<<grid, kThreads, 0, stream>>>(args);
  }
}

}  // namespace

template <class T>
void product(const ProductArgs<T>& args, cudaStream_t stream) {
  launch(args, product_kernel<T, 8>, product_kernel<T, 32>, stream);
}

template <class T>
void product_grad(const ProductArgs<T>& args, cudaStream_t stream) {
  launch(args, product_grad_kernel<T, 8>, product_grad_kernel<T, 32>, stream);
}

template void product(const ProductArgs<float>&, cudaStream_t);
template void product(const ProductArgs<double>&, cudaStream_t);
template void product_grad(const ProductArgs<float>&, cudaStream_t);
template void product_grad(const ProductArgs<double>&, cudaStream_t);

}  // namespace topomask::cuda

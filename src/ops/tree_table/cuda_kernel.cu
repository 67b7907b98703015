#include "ops/cuda/item_columns.cuh"
#include "ops/tree_table/cuda_kernel.h"

namespace topomask::cuda {

namespace {

constexpr int kThreads = ItemColumns::kThreads, kWarp = ItemColumns::kWarp, kWarps = ItemColumns::kWarps;

template <class T>
__global__ void __launch_bounds__(kThreads) row_sums_kernel(const RowSumArgs<T> a, int64_t first_slice) {
  const ItemColumns place(first_slice);
  if (place.item >= a.rows || place.column >= a.columns) return;
  const T* from = a.from + place.slice * a.from_rows * a.columns + place.column;
  T sum = 0;
#pragma unroll 4
  for (int64_t e = a.offsets[place.item]; e < a.offsets[place.item + 1]; ++e) sum += from[a.items[e] * a.columns];
  a.to[(place.slice * a.rows + place.item) * a.columns + place.column] = sum;
}

template <class T>
__global__ void __launch_bounds__(kThreads) spread_kernel(const SpreadArgs<T> a, int64_t first_slice) {
  const ItemColumns place(first_slice);
  if (place.item >= a.rows || place.column >= a.columns) return;
  const int32_t row = a.place[place.item];
  if (row < 0) return;
  a.y[(place.slice * a.rows + place.item) * a.columns + place.column] +=
      a.sign * a.from[(place.slice * a.from_rows + row) * a.columns + place.column];
}

/// The depths of a tile; missing depths are set beyond every table. Sums of two stay below 2³².
struct TileDepths {
  uint32_t depth[kHankelBins];
  __device__ __forceinline__ TileDepths(const HankelShape& shape, const HankelTile& tile) {
#pragma unroll
    for (int b = 0; b < kHankelBins; ++b) {
      depth[b] = static_cast<uint32_t>(b < tile.count ? shape.depth[tile.first + b] : shape.entries);
    }
  }
};

/// All bins of the tile at once, each column a thread: a row of sums is read once for all of them.
template <class T>
__global__ void __launch_bounds__(kThreads)
    products_kernel(const HankelShape shape, int64_t first_slice, const T* table, const T* sums, T* products) {
  const ItemColumns place(first_slice);
  if (place.item >= shape.tile_count || place.column >= shape.columns) return;
  const HankelTile tile = shape.tiles[place.item];
  const TileDepths own(shape, tile);
  const auto entries = static_cast<uint32_t>(shape.entries);
  const T* f = table + place.slice % shape.heads * (shape.entries + 1);
  const int64_t base = place.slice * shape.rows * shape.columns + place.column;
  T sum[kHankelBins] = {};
#pragma unroll 2
  for (int32_t t = tile.begin; t < tile.end; ++t) {
    const auto depth = static_cast<uint32_t>(shape.depth[t]);
    const T x = sums[base + t * shape.columns];
#pragma unroll
    for (int b = 0; b < kHankelBins; ++b) sum[b] += f[min(own.depth[b] + depth, entries)] * x;
  }
#pragma unroll
  for (int b = 0; b < kHankelBins; ++b) {
    if (b < tile.count) products[base + (tile.first + b) * shape.columns] = sum[b];
  }
}

/// Each bin that the tile meets is a thread. The first entries of the table, where most pairs of small components
/// meet, are summed in shared memory.
template <class T>
__global__ void __launch_bounds__(kThreads) gradient_kernel(const HankelShape shape, int64_t first_slice, const T* g,
                                                            const T* x, double sign, double* gradient) {
  constexpr int kShared = 512;
  __shared__ double sums[kShared];
  for (int k = threadIdx.x; k < kShared; k += kThreads) sums[k] = 0;
  __syncthreads();
  const int64_t slice = first_slice + blockIdx.z, base = slice * shape.rows * shape.columns;
  double* to = gradient + slice % shape.heads * (shape.entries + 1);
  const int64_t warps = static_cast<int64_t>(gridDim.x) * kWarps;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp; i < shape.tile_count; i += warps) {
    const HankelTile tile = shape.tiles[i];
    const TileDepths own(shape, tile);
    const T* left = g + base + tile.first * shape.columns;
    for (int32_t t = tile.begin + static_cast<int32_t>(threadIdx.x) % kWarp; t < tile.end; t += kWarp) {
      const T* right = x + base + t * shape.columns;
      T dot[kHankelBins] = {};
      for (int64_t c = 0; c < shape.columns; ++c) {
        const T here = right[c];
#pragma unroll
        for (int b = 0; b < kHankelBins; ++b) {
          if (b < tile.count) dot[b] += left[b * shape.columns + c] * here;
        }
      }
      const auto depth = static_cast<uint32_t>(shape.depth[t]);
#pragma unroll
      for (int b = 0; b < kHankelBins; ++b) {
        const uint32_t k = own.depth[b] + depth;
        if (b < tile.count && k < shape.entries) {
          atomicAdd(k < kShared ? sums + k : to + k, sign * static_cast<double>(dot[b]));
        }
      }
    }
  }
  __syncthreads();
  for (int k = threadIdx.x; k < kShared; k += kThreads) {
    if (sums[k] != 0) atomicAdd(to + k, sums[k]);
  }
}

}  // namespace

template <class T>
void row_sums(const RowSumArgs<T>& args, cudaStream_t stream) {
  if (args.rows * args.columns * args.slices == 0) return;
  ItemColumns::launch(args.rows, args.columns, args.slices, [&](dim3 grid, int64_t first_slice) {
    row_sums_kernel<T><<<grid, kThreads, 0, stream>>>(args, first_slice);
  });
}

template <class T>
void spread(const SpreadArgs<T>& args, cudaStream_t stream) {
  if (args.rows * args.columns * args.slices == 0) return;
  ItemColumns::launch(args.rows, args.columns, args.slices, [&](dim3 grid, int64_t first_slice) {
    spread_kernel<T><<<grid, kThreads, 0, stream>>>(args, first_slice);
  });
}

template <class T>
void hankel_products(const HankelShape& shape, const T* table, const T* sums, T* products, cudaStream_t stream) {
  if (shape.tile_count * shape.columns * shape.slices == 0) return;
  ItemColumns::launch(shape.tile_count, shape.columns, shape.slices, [&](dim3 grid, int64_t first_slice) {
    products_kernel<T><<<grid, kThreads, 0, stream>>>(shape, first_slice, table, sums, products);
  });
}

template <class T>
void hankel_gradient(const HankelShape& shape, const T* g, const T* x, double sign, double* gradient,
                     cudaStream_t stream) {
  if (shape.tile_count * shape.columns * shape.slices == 0) return;
  constexpr int64_t kMostBlocks = 4096;  // each ends with additions to the result
  const int64_t blocks = (shape.tile_count + kWarps - 1) / kWarps;
  for_slice_ranges(shape.slices, [&](int64_t first_slice, unsigned count) {
    const dim3 grid(static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks), 1, count);
    gradient_kernel<T><<<grid, kThreads, 0, stream>>>(shape, first_slice, g, x, sign, gradient);
  });
}

#define TOPOMASK_TREE_TABLE(T)                                                             \
  template void row_sums(const RowSumArgs<T>&, cudaStream_t);                              \
  template void spread(const SpreadArgs<T>&, cudaStream_t);                                \
  template void hankel_products(const HankelShape&, const T*, const T*, T*, cudaStream_t); \
  template void hankel_gradient(const HankelShape&, const T*, const T*, double, double*, cudaStream_t);
TOPOMASK_TREE_TABLE(float)
TOPOMASK_TREE_TABLE(double)

}  // namespace topomask::cuda

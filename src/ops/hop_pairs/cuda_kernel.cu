#include "ops/cuda/slice_ranges.h"
#include "ops/hop_pairs/cuda_kernel.h"

namespace topomask::cuda {

namespace {

constexpr int kThreads = 256, kHeadBlock = 4, kLanes = 32;

/// The row that holds entry p.
__device__ int64_t row_of(const int64_t* offsets, int64_t rows, int64_t p) {
  int64_t low = 0, high = rows;
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    if (offsets[middle] <= p) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

template <class T>
__global__ void lengths_kernel(const MeetingArgs<T> a, int32_t* lengths) {
  const int64_t p = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (p >= a.entries) return;
  const int64_t i = row_of(a.offsets, a.rows, p);
  lengths[p] = ops::hop_pairs::pairs_of(a.left, i, a.right, a.columns[p], a.terms).count();
}

template <class T>
__global__ void lists_kernel(const MeetingArgs<T> a, const int32_t* list_offsets, uint8_t* pairs, T* sums) {
  const int64_t p = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (p >= a.entries) return;
  const int64_t i = row_of(a.offsets, a.rows, p);
  ops::hop_pairs::write_list(a.left, i, a.right, a.columns[p], a.terms, pairs + list_offsets[p],
                             sums + list_offsets[p]);
}

/// A thread an entry, up to kHeadBlock heads at once; g in shared memory, the heads of a pair side by side.
template <class T>
__global__ void __launch_bounds__(kThreads) values_kernel(const PairListArgs<T> a, const T* g, T* values) {
  __shared__ T own[256 * kHeadBlock];
  const int64_t first = static_cast<int64_t>(blockIdx.y) * kHeadBlock;
  const int heads = static_cast<int>(a.heads - first < kHeadBlock ? a.heads - first : kHeadBlock);
  for (int x = threadIdx.x; x < 256 * kHeadBlock; x += kThreads) {
    const int pair = x / kHeadBlock, h = x % kHeadBlock;
    own[x] = pair < a.count && h < heads ? g[(first + h) * a.count + pair] : T(0);
  }
  __syncthreads();
  const int64_t p = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (p >= a.entries) return;
  T sum[kHeadBlock] = {};
  const int end = a.offsets[p + 1];
  for (int q = a.offsets[p]; q < end; ++q) {
    const T* of_pair = own + a.pairs[q] * kHeadBlock;
    const T weight = a.sums[q];
#pragma unroll
    for (int h = 0; h < kHeadBlock; ++h) sum[h] += of_pair[h] * weight;
  }
#pragma unroll
  for (int h = 0; h < kHeadBlock; ++h) {
    if (h < heads) values[(first + h) * a.entries + p] = sum[h];
  }
}

constexpr int64_t kMostBlocks = 1056;
constexpr int kSharedBytes = 96 << 10, kMostWarps = 4;

/// Every thread has a sum for each pair in shared memory, those of a pair in 32 banks: no atomics, one order.
template <class T>
__global__ void gradient_kernel(const PairListArgs<T> a, const T* grad, double* partial) {
  extern __shared__ char bytes[];
  T* total = reinterpret_cast<T*>(bytes);
  const int lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes, warps = blockDim.x / kLanes;
  T* own = total + warp * a.count * kLanes + lane;
  for (int c = 0; c < a.count; ++c) own[c * kLanes] = 0;
  const T* slopes = grad + blockIdx.y * a.entries;
  for (int64_t p = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; p < a.entries;
       p += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const T slope = slopes[p];
    const int end = a.offsets[p + 1];
    for (int q = a.offsets[p]; q < end; ++q) {
      const int pair = a.pairs[q];
      if (pair < a.count) own[pair * kLanes] += slope * a.sums[q];
    }
  }
  __syncthreads();
  for (int c = warp; c < a.count; c += warps) {
    double sum = 0;
    for (int w = 0; w < warps; ++w) sum += total[(w * a.count + c) * kLanes + lane];
    for (int step = kLanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (lane == 0) partial[(blockIdx.y * static_cast<int64_t>(a.count) + c) * gridDim.x + blockIdx.x] = sum;
  }
}

unsigned blocks_of(int64_t entries) {
  return static_cast<unsigned>((entries + kThreads - 1) / kThreads);
}

}  // namespace

template <class T>
void pair_list_lengths(const MeetingArgs<T>& args, int32_t* lengths, cudaStream_t stream) {
  if (args.entries > 0) lengths_kernel<T><<<blocks_of(args.entries), kThreads, 0, stream>>>(args, lengths);
}

template <class T>
void write_pair_lists(const MeetingArgs<T>& args, const int32_t* list_offsets, uint8_t* pairs, T* sums,
                      cudaStream_t stream) {
  if (args.entries == 0) return;
  lists_kernel<T><<<blocks_of(args.entries), kThreads, 0, stream>>>(args, list_offsets, pairs, sums);
}

template <class T>
void pair_values(const PairListArgs<T>& args, const T* g, T* values, cudaStream_t stream) {
  if (args.entries == 0 || args.heads == 0) return;
  for_slice_ranges((args.heads + kHeadBlock - 1) / kHeadBlock, [&](int64_t first, unsigned count) {
    PairListArgs<T> some = args;
    const int64_t head = first * kHeadBlock;
    some.heads -= head;
    values_kernel<T><<<dim3(blocks_of(args.entries), count), kThreads, 0, stream>>>(some, g + head * args.count,
                                                                                    values + head * args.entries);
  });
}

int64_t pair_gradient_blocks(int64_t entries) {
  const int64_t blocks = (entries + kMostWarps * kLanes - 1) / (kMostWarps * kLanes);
  return blocks < 1 ? 1 : blocks < kMostBlocks ? blocks : kMostBlocks;
}

template <class T>
void pair_gradients(const PairListArgs<T>& args, const T* grad, double* partial, cudaStream_t stream) {
  if (args.heads == 0 || args.count == 0) return;
  const int warp_bytes = args.count * kLanes * static_cast<int>(sizeof(T));
  const int fitting = kSharedBytes / warp_bytes, warps = fitting < 1 ? 1 : fitting < kMostWarps ? fitting : kMostWarps;
  cudaFuncSetAttribute(gradient_kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  const int64_t blocks = pair_gradient_blocks(args.entries);
  for_slice_ranges(args.heads, [&](int64_t head, unsigned count) {
    gradient_kernel<T>
        <<<dim3(static_cast<unsigned>(blocks), count), warps * kLanes, static_cast<size_t>(warps) * warp_bytes,
           stream>>>(args, grad + head * args.entries, partial + head * args.count * blocks);
  });
}

#define TOPOMASK_HOP_PAIRS(T)                                                                        \
  template void pair_list_lengths(const MeetingArgs<T>&, int32_t*, cudaStream_t);                    \
  template void write_pair_lists(const MeetingArgs<T>&, const int32_t*, uint8_t*, T*, cudaStream_t); \
  template void pair_values(const PairListArgs<T>&, const T*, T*, cudaStream_t);                     \
  template void pair_gradients(const PairListArgs<T>&, const T*, double*, cudaStream_t);
TOPOMASK_HOP_PAIRS(float)
TOPOMASK_HOP_PAIRS(double)

}  // namespace topomask::cuda

#include "core/cuda/launch.cuh"
#include "core/cuda/long_rows.cuh"
#include "ops/spmm/cuda_kernel.h"

namespace topomask::cuda {

namespace {

/// One row and one tile of columns.
template <class T, class A, int kLanes, int kChunks, class Company>
__device__ __forceinline__ void multiply_row(const SpmmArgs<T, A>& a, const Place& place, int tile,
                                             const Company& company) {
  using Group = RowGroup<T, kLanes, kChunks>;
  const Group group;
  const int width = min(kLanes * Group::kHeld, a.width - tile);
  const auto head = static_cast<uint32_t>(place.slice) % static_cast<uint32_t>(a.value_heads);
  const A* values = a.values + static_cast<int64_t>(head) * a.entries;
  const auto x = group.reader(a.x + place.slice * a.cols * a.width + tile, a.width, width);
  typename Group::Sum total;
  group.for_batches(place.count, a.columns + place.first, [&](const Batch& batch) {
    typename Group::Part parts[kBatch];
    group.load_batch(batch, x, parts);
    const int64_t entry = place.first + batch.place;
    const A value = batch.present ? values[a.index ? a.index[entry] : entry] : A(0);
    group.gather(total, value, parts);
  });
  company.sum(total);
  if (!place.valid || !company.stores()) return;
  group.store(a.y + (place.slice * a.rows + place.row) * a.width + tile, width, total);
}

/// A group takes one row and the tile blockIdx.y.
template <class T, class A, int kLanes, int kChunks>
__global__ void __launch_bounds__(kThreads) spmm_kernel(const SpmmArgs<T, A> a) {
  using Group = RowGroup<T, kLanes, kChunks>;
  multiply_row<T, A, kLanes, kChunks>(a, Place(a.offsets, a.rows, a.slices, kLanes).unless_longer(a.longest_short_row),
                                      blockIdx.y * kLanes * Group::kHeld, Alone<Group>{});
}

template <class T, class A, int kLanes, int kChunks>
__global__ void __launch_bounds__(kLongThreads) long_spmm_kernel(const SpmmArgs<T, A> a) {
  using Group = RowGroup<T, kLanes, kChunks>;
  for_long_places<Group, kLanes>(a.offsets, a.rows, a.longest_short_row, a.slices,
                                 [&](const Place& place, const auto& company) {
                                   for (int tile = 0; tile < a.width; tile += kLanes * Group::kHeld) {
                                     multiply_row<T, A, kLanes, kChunks>(a, place, tile, company);
                                   }
                                 });
}

/// One row and the slices of a strand.
template <class T, class A, int kLanes, int kChunks>
__device__ __forceinline__ void dots_of_row(const SddmmArgs<T, A>& a, const Place& strand) {
  using Group = RowGroup<T, kLanes, kChunks>;
  constexpr int kTile = kLanes * Group::kHeld;
  const Group group;
  A* out = a.out + strand.slice * a.entries + strand.first;
  group.for_batches(strand.count, a.columns + strand.first, [&](const Batch& batch) {
    A dot = 0;
    for (int64_t turn = 0; turn < a.slices; turn += a.strands) {
      const Place place = strand.moved(turn, a.slices);
      const T* left = a.a + (place.slice * a.rows + place.row) * a.width;
      const T* right = a.b + place.slice * a.cols * a.width;
      for (int tile = 0; tile < a.width; tile += kTile) {
        const int width = min(kTile, a.width - tile);
        typename Group::Part parts[kBatch];
        group.load_batch(batch, group.reader(right + tile, a.width, width), parts);
        const A product = group.dots(group.left(group.load(left + tile, width)), parts);
        if (place.valid) dot += product;
      }
    }
    if (batch.present && group.writes()) out[batch.place] = dot;
  });
}

template <class T, class A, int kLanes, int kChunks>
__global__ void __launch_bounds__(kThreads) sddmm_kernel(const SddmmArgs<T, A> a) {
  dots_of_row<T, A, kLanes, kChunks>(a, Place(a.offsets, a.rows, a.strands, kLanes).unless_longer(a.longest_short_row));
}

template <class T, class A, int kLanes, int kChunks>
__global__ void __launch_bounds__(kLongThreads) long_sddmm_kernel(const SddmmArgs<T, A> a) {
  for_long_places<RowGroup<T, kLanes, kChunks>, kLanes>(
      a.offsets, a.rows, a.longest_short_row, a.strands,
      [&](const Place& place, const auto&) { dots_of_row<T, A, kLanes, kChunks>(a, place); });
}

}  // namespace

template <class T, class A>
void spmm(const SpmmArgs<T, A>& args, cudaStream_t stream) {
  if (args.rows * args.slices * args.width == 0) return;
  with_group<T>(min(args.width, 32 * Packet<T>::kSize), [&](auto lanes, auto chunks) {
    constexpr int kLanes = decltype(lanes)::value, kChunks = decltype(chunks)::value;
    constexpr int kTile = kLanes * kChunks * Packet<T>::kSize;
    const dim3 grid(blocks(args.rows * args.slices, kLanes), (args.width + kTile - 1) / kTile);
    spmm_kernel<T, A, kLanes, kChunks><<<grid, kThreads, 0, stream>>>(args);
    if (may_have_long_rows(args.entries, args.longest_short_row)) {
      long_spmm_kernel<T, A, kLanes, kChunks>
          <<<long_row_blocks(args.rows, args.slices), kLongThreads, 0, stream>>>(args);
    }
  });
}

template <class T, class A>
void sddmm(const SddmmArgs<T, A>& args, cudaStream_t stream) {
  if (args.rows * args.slices == 0) return;
  with_group<T>(min(args.width, 32 * Packet<T>::kSize), [&](auto lanes, auto chunks) {
    constexpr int kLanes = decltype(lanes)::value, kChunks = decltype(chunks)::value;
    sddmm_kernel<T, A, kLanes, kChunks><<<blocks(args.rows * args.strands, kLanes), kThreads, 0, stream>>>(args);
    if (may_have_long_rows(args.entries, args.longest_short_row)) {
      long_sddmm_kernel<T, A, kLanes, kChunks>
          <<<long_row_blocks(args.rows, args.strands), kLongThreads, 0, stream>>>(args);
    }
  });
}

#define TOPOMASK_SPMM(T, A)                                      \
  template void spmm<T, A>(const SpmmArgs<T, A>&, cudaStream_t); \
  template void sddmm<T, A>(const SddmmArgs<T, A>&, cudaStream_t);
TOPOMASK_SPMM(float, float)
TOPOMASK_SPMM(double, double)
TOPOMASK_SPMM(__nv_bfloat16, float)
TOPOMASK_SPMM(__half, float)

}  // namespace topomask::cuda

#include "ops/cuda/item_columns.cuh"
#include "ops/low_rank_level/cuda_kernel.h"

namespace topomask::cuda {

namespace {

constexpr int kThreads = ItemColumns::kThreads;

template <class T>
struct Place : ItemColumns {
  using ItemColumns::ItemColumns;
  __device__ __forceinline__ int64_t node(const LowRankLevelArgs<T>& a, int64_t i) const {
    return (slice * a.size + a.nodes[i]) * a.columns + column;
  }
  __device__ __forceinline__ int64_t term(const LowRankLevelArgs<T>& a, int64_t piece, int k) const {
    return ((slice * a.piece_count + piece) * kRanks + k) * a.columns + column;
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    send_kernel(const LowRankLevelArgs<T> a, int64_t first_slice, int64_t first) {
  const Place<T> place(first_slice);
  if (place.item >= a.piece_count || place.column >= a.columns) return;
  const LowRankPiece piece = a.pieces[place.item];
  const T* factor = a.send + piece.factors + first;
  T sum[kRanks] = {};
  for (int64_t i = 0; i < piece.count; ++i, factor += piece.rank) {
    const T x = a.x[place.node(a, piece.first + i)];
#pragma unroll
    for (int k = 0; k < kRanks; ++k) {
      if (first + k < piece.rank) sum[k] += factor[k] * x;
    }
  }
#pragma unroll
  for (int k = 0; k < kRanks; ++k) a.sums[place.term(a, place.item, k)] = sum[k];
}

/// One term of one component: a sweep over its pieces each way. A group joins the sum when it is done.
template <class T>
__global__ void __launch_bounds__(kThreads) sweep_kernel(const LowRankLevelArgs<T> a, int64_t first_slice) {
  const Place<T> place(first_slice);
  const int64_t component = place.item / kRanks;
  const auto k = static_cast<int>(place.item % kRanks);
  if (component >= a.component_count || place.column >= a.columns) return;
  const int64_t begin = a.components[component], end = a.components[component + 1];
  for (const bool forwards : {false, true}) {
    T done = 0, own = 0;
    int64_t group = -1;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t p = forwards ? i : begin + end - 1 - i;
      if (a.pieces[p].group != group) {
        group = a.pieces[p].group;
        done += own;
        own = 0;
      }
      const int64_t at = place.term(a, p, k);
      a.others[at] = forwards ? a.others[at] + done : done;
      own += a.sums[at];
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    receive_kernel(const LowRankLevelArgs<T> a, int64_t first_slice, int64_t first) {
  const Place<T> place(first_slice);
  if (place.item >= a.piece_count || place.column >= a.columns) return;
  const LowRankPiece piece = a.pieces[place.item];
  const T* factor = a.receive + piece.factors + first;
  T other[kRanks];
#pragma unroll
  for (int k = 0; k < kRanks; ++k) other[k] = a.others[place.term(a, place.item, k)];
  for (int64_t i = 0; i < piece.count; ++i, factor += piece.rank) {
    T sum = 0;
#pragma unroll
    for (int k = 0; k < kRanks; ++k) {
      if (first + k < piece.rank) sum += factor[k] * other[k];
    }
    a.y[place.node(a, piece.first + i)] += sum;
  }
}

}  // namespace

template <class T>
void low_rank_level(const LowRankLevelArgs<T>& args, int64_t first, cudaStream_t stream) {
  if (args.piece_count * args.columns * args.slices == 0) return;
  const auto launch = [&](int64_t items, auto* kernel, auto... rest) {
    ItemColumns::launch(items, args.columns, args.slices, [&](dim3 grid, int64_t first_slice) {
      kernel<<<grid, kThreads, 0, stream>>>(args, first_slice, rest...);
    });
  };
  launch(args.piece_count, send_kernel<T>, first);
  launch(args.component_count * kRanks, sweep_kernel<T>);
  launch(args.piece_count, receive_kernel<T>, first);
}

template void low_rank_level(const LowRankLevelArgs<float>&, int64_t, cudaStream_t);
template void low_rank_level(const LowRankLevelArgs<double>&, int64_t, cudaStream_t);

}  // namespace topomask::cuda

#pragma once

#include "core/cuda/clamped.cuh"
#include "core/cuda/launch.cuh"
#include "core/cuda/long_rows.cuh"
#include "ops/sparse_attention/cuda_kernel.h"
#include "ops/sparse_attention/entry_pair.cuh"
#include "ops/sparse_attention/slice_place.cuh"
#include "ops/sparse_attention/tiled_kernel.cuh"

// The kernels behind cuda_kernel.h, instantiated for one dtype a file. A group of threads takes a row; it is
// as wide as the row asks for, so short rows of a narrow type share a warp, and a block takes a row of very many
// entries. bfloat16 has kernels of its own, tiled_kernel.cuh, where the tiles of a pattern are known.

namespace topomask::cuda {

template <class T, class A>
__device__ __forceinline__ int64_t values_start(const AttentionArgs<T, A>& a, int64_t slice) {
  return static_cast<int64_t>(static_cast<uint32_t>(slice) % static_cast<uint32_t>(a.value_heads)) * a.entries;
}

/// Blocks of a multiprocessor that the registers of a kernel leave room for, where a thread has one packet: as
/// measured.
template <class T>
struct Blocks {
  static constexpr int kForward = sizeof(T) == 8 ? 6 : 8;
  static constexpr int kRows = sizeof(T) == 4 ? 6 : 4;
  static constexpr int kColumns = sizeof(T) == 8 ? 6 : 9;
};

template <class T, class A, int kLanes, int kChunks, bool kSoftmax, class Company>
__device__ __forceinline__ void attend(const AttentionArgs<T, A>& a, const Place& place, const Company& company) {
  using Group = RowGroup<T, kLanes, kChunks>;
  const Group group;
  const int64_t node = place.slice * a.rows + place.row;
  const SlicePlace slice(place.slice, a.heads);
  const auto k = group.reader(slice.of(a.k, a.k_strides), a.k_strides.row, a.features);
  const auto v = group.reader(slice.of(a.v, a.v_strides), a.v_strides.row, a.value_dim);
  const A* values = a.values + values_start(a, place.slice) + place.first;
  const typename Group::Left q =
      group.left(group.load(slice.of(a.q, a.q_strides) + place.row * a.q_strides.row, a.features));
  typename Group::Sum total;
  A denominator = 0;
  constexpr A kNone = -INFINITY;
  A max = kNone;
  const auto raise = [&](A higher) {
    const A fade = max == kNone ? A(0) : exp(max - higher);
    denominator *= fade;
    total.scale(fade);
    max = higher;
  };
  group.for_batches(place.count, a.columns + place.first, [&](const Batch& batch) {
    typename Group::Part keys[kBatch], nodes[kBatch];
    group.load_batch(batch, k, keys, v, nodes);
    const A value = batch.present ? values[batch.place] : A(0);
    A score = group.dots(q, keys);
    if constexpr (kSoftmax) {
      score *= a.scale;
      const A higher = fmax(max, group.batch_max(value != A(0) ? score : kNone));
      if (higher > max) raise(higher);
      score = value != A(0) ? exp(score - max) : A(0);
    }
    const A weight = value * score;
    denominator += weight;
    group.gather(total, weight, nodes);
  });
  denominator = group.batch_sum(denominator);
  if constexpr (kSoftmax) {
    const A highest = company.max(max);
    if (highest > max) raise(highest);
  }
  denominator = company.sum(denominator);
  company.sum(total);
  if (!place.valid || !company.stores()) return;
  total.scale(A(1) / clamped(denominator, a.eps));
  group.store(slice.of(a.out, a.out_strides) + place.row * a.out_strides.row, a.value_dim, total);
  if (group.leads()) {
    a.denominator[node] = denominator;
    if constexpr (kSoftmax) a.row_max[node] = max == kNone ? A(0) : max;
  }
}

template <class T, class A, int kLanes, int kChunks, bool kSoftmax>
__global__ void __launch_bounds__(kThreads, kChunks == 1 ? Blocks<T>::kForward : 1)
    forward_kernel(const AttentionArgs<T, A> a) {
  attend<T, A, kLanes, kChunks, kSoftmax>(a,
                                          Place(a.offsets, a.rows, a.slices, kLanes).unless_longer(a.longest_short_row),
                                          Alone<RowGroup<T, kLanes, kChunks>>{});
}

template <class T, class A, int kLanes, int kChunks, bool kSoftmax>
__global__ void __launch_bounds__(kLongThreads) long_forward_kernel(const AttentionArgs<T, A> a) {
  for_long_places<RowGroup<T, kLanes, kChunks>, kLanes>(
      a.offsets, a.rows, a.longest_short_row, a.slices,
      [&](const Place& place, const auto& company) { attend<T, A, kLanes, kChunks, kSoftmax>(a, place, company); });
}

/// The pass over rows: grad_q, grad_values, and the pairs for the pass over columns. A group takes the slices of its
/// strand one after the other.
template <class T, class A, int kLanes, int kChunks, class Company>
__device__ __forceinline__ void pass_over_row(const AttentionBackwardArgs<T, A>& b, const Place& strand,
                                              const Company& company) {
  using Group = RowGroup<T, kLanes, kChunks>;
  const AttentionArgs<T, A>& a = b.forward;
  const Group group;
  const bool softmax = a.row_max != nullptr;
  const A* values = a.values + values_start(a, strand.slice) + strand.first;
  A* grad_values = b.grad_values ? b.grad_values + strand.slice * a.entries + strand.first : nullptr;
  for (int64_t turn = 0; turn < a.slices; turn += b.strands) {
    const Place place = strand.moved(turn, a.slices);
    const int64_t node = place.slice * a.rows + place.row;
    const SlicePlace slice(place.slice, a.heads);
    const auto k = group.reader(slice.of(a.k, a.k_strides), a.k_strides.row, a.features);
    const auto v = group.reader(slice.of(a.v, a.v_strides), a.v_strides.row, a.value_dim);
    const typename Group::Left q =
        group.left(group.load(slice.of(a.q, a.q_strides) + place.row * a.q_strides.row, a.features));
    const typename Group::Part grad_part =
        group.load(slice.of(b.grad_out, b.grad_strides) + place.row * b.grad_strides.row, a.value_dim);
    const typename Group::Left grad = group.left(grad_part);
    const A denominator = a.denominator[node], max = softmax ? a.row_max[node] : A(0);
    const A inverse = A(1) / clamped(denominator, a.eps);
    // A clamped D does not move with A.
    const A product_out = group.gradient_dot(
        grad_part, group.load(slice.of(a.out, a.out_strides) + place.row * a.out_strides.row, a.value_dim));
    const A mean = fabs(denominator) < a.eps ? A(0) : product_out;
    auto* pairs = pairs_of(b) + place.slice * a.entries + place.first;
    typename Group::Sum grad_q;
    group.for_batches(place.count, a.columns + place.first, [&](const Batch& batch) {
      typename Group::Part keys[kBatch], nodes[kBatch];
      group.load_batch(batch, k, keys, v, nodes);
      const A value = batch.present ? values[batch.place] : A(0);
      const bool writes = batch.present && group.writes();
      const A so_far = writes && grad_values && turn > 0 ? grad_values[batch.place] : A(0);
      A score = group.dots(q, keys);
      const A product = group.dots(grad, nodes);
      if (softmax) score = exp(limited(score * a.scale - max));
      const A grad_weight = (product - mean) * inverse;
      A grad_score = grad_weight * value;
      if (softmax) grad_score *= score * a.scale;
      if (writes) {
        pairs[batch.place] = {value * score * inverse, grad_score};
        if (grad_values) grad_values[batch.place] = so_far + grad_weight * score;
      }
      group.gather(grad_q, grad_score, keys);
    });
    company.sum(grad_q);
    if (place.valid && company.stores()) group.store(b.grad_q + node * a.features, a.features, grad_q);
  }
}

template <class T, class A, int kLanes, int kChunks>
__global__ void __launch_bounds__(kThreads, kChunks == 1 ? Blocks<T>::kRows : 1)
    backward_rows_kernel(const AttentionBackwardArgs<T, A> b) {
  const AttentionArgs<T, A>& a = b.forward;
  pass_over_row<T, A, kLanes, kChunks>(b,
                                       Place(a.offsets, a.rows, b.strands, kLanes).unless_longer(a.longest_short_row),
                                       Alone<RowGroup<T, kLanes, kChunks>>{});
}

template <class T, class A, int kLanes, int kChunks>
__global__ void __launch_bounds__(kLongThreads) long_rows_kernel(const AttentionBackwardArgs<T, A> b) {
  for_long_places<RowGroup<T, kLanes, kChunks>, kLanes>(
      b.forward.offsets, b.forward.rows, b.forward.longest_short_row, b.strands,
      [&](const Place& place, const auto& company) { pass_over_row<T, A, kLanes, kChunks>(b, place, company); });
}

/// The pass over columns, through the transposed pattern: grad_k and grad_v, without atomics.
template <class T, class A, int kLanes, int kChunks, class Company>
__device__ __forceinline__ void pass_over_column(const AttentionBackwardArgs<T, A>& b, const Place& place,
                                                 const Company& company) {
  using Group = RowGroup<T, kLanes, kChunks>;
  const AttentionArgs<T, A>& a = b.forward;
  const Group group;
  const int64_t node = place.slice * a.cols + place.row;
  const SlicePlace slice(place.slice, a.heads);
  const auto q = group.reader(slice.of(a.q, a.q_strides), a.q_strides.row, a.features);
  const auto grad = group.reader(slice.of(b.grad_out, b.grad_strides), b.grad_strides.row, a.value_dim);
  const auto* pairs = pairs_of(b) + place.slice * a.entries;
  const int64_t* in_row_order = b.t_index + place.first;
  typename Group::Sum grad_k, grad_v;
  group.for_batches(place.count, b.t_columns + place.first, [&](const Batch& batch) {
    const int64_t entry = in_row_order[batch.place];
    typename Group::Part queries[kBatch], grads[kBatch];
    group.load_batch(batch, q, queries, grad, grads);
    const Pair<A> pair = batch.present ? pairs[entry].get() : Pair<A>{};
    group.gather(grad_k, pair.grad_score, queries);
    group.gather(grad_v, pair.weight, grads);
  });
  company.sum(grad_k);
  company.sum(grad_v);
  if (!place.valid || !company.stores()) return;
  group.store(b.grad_k + node * a.features, a.features, grad_k);
  group.store(b.grad_v + node * a.value_dim, a.value_dim, grad_v);
}

template <class T, class A, int kLanes, int kChunks>
__global__ void __launch_bounds__(kThreads, kChunks == 1 ? Blocks<T>::kColumns : 1)
    backward_columns_kernel(const AttentionBackwardArgs<T, A> b) {
  const AttentionArgs<T, A>& a = b.forward;
  pass_over_column<T, A, kLanes, kChunks>(
      b, Place(b.t_offsets, a.cols, a.slices, kLanes).unless_longer(b.longest_short_column),
      Alone<RowGroup<T, kLanes, kChunks>>{});
}

template <class T, class A, int kLanes, int kChunks>
__global__ void __launch_bounds__(kLongThreads) long_columns_kernel(const AttentionBackwardArgs<T, A> b) {
  for_long_places<RowGroup<T, kLanes, kChunks>, kLanes>(
      b.t_offsets, b.forward.cols, b.longest_short_column, b.forward.slices,
      [&](const Place& place, const auto& company) { pass_over_column<T, A, kLanes, kChunks>(b, place, company); });
}

template <class T, class A>
void sparse_attention(const AttentionArgs<T, A>& args, cudaStream_t stream) {
  if (args.rows * args.slices == 0) return;
  if constexpr (kTiled<T>) {
    if (args.tiles) tiled_attention(args, stream);
  }
  with_group<T>(max(args.features, args.value_dim), [&](auto lanes, auto chunks) {
    constexpr int kLanes = decltype(lanes)::value, kChunks = decltype(chunks)::value;
    void (*kernel)(AttentionArgs<T, A>) = forward_kernel<T, A, kLanes, kChunks, false>;
    void (*long_kernel)(AttentionArgs<T, A>) = long_forward_kernel<T, A, kLanes, kChunks, false>;
    if (args.row_max) {
      kernel = forward_kernel<T, A, kLanes, kChunks, true>;
      long_kernel = long_forward_kernel<T, A, kLanes, kChunks, true>;
    }
    if (!args.tiles) kernel<<<blocks(args.rows * args.slices, kLanes), kThreads, 0, stream>>>(args);
    if (args.may_have_long_rows) {
      long_kernel<<<long_row_blocks(args.rows, args.slices), kLongThreads, 0, stream>>>(args);
    }
  });
}

template <class T, class A>
void sparse_attention_backward(const AttentionBackwardArgs<T, A>& args, cudaStream_t stream) {
  const AttentionArgs<T, A>& a = args.forward;
  with_group<T>(max(a.features, a.value_dim), [&](auto lanes, auto chunks) {
    constexpr int kLanes = decltype(lanes)::value, kChunks = decltype(chunks)::value;
    if (a.rows * a.slices > 0) {
      if constexpr (kTiled<T>) {
        if (a.tiles) tiled_rows(args, stream);
      }
      if (!a.tiles) {
        backward_rows_kernel<T, A, kLanes, kChunks>
            <<<blocks(a.rows * args.strands, kLanes), kThreads, 0, stream>>>(args);
      }
      if (a.may_have_long_rows) {
        long_rows_kernel<T, A, kLanes, kChunks>
            <<<long_row_blocks(a.rows, args.strands), kLongThreads, 0, stream>>>(args);
      }
    }
    if (a.cols * a.slices > 0) {
      if constexpr (kTiled<T>) {
        if (args.t_tiles) tiled_columns(args, stream);
      }
      if (!args.t_tiles) {
        backward_columns_kernel<T, A, kLanes, kChunks>
            <<<blocks(a.cols * a.slices, kLanes), kThreads, 0, stream>>>(args);
      }
      if (args.may_have_long_columns) {
        long_columns_kernel<T, A, kLanes, kChunks>
            <<<long_row_blocks(a.cols, a.slices), kLongThreads, 0, stream>>>(args);
      }
    }
  });
}

#define TOPOMASK_SPARSE_ATTENTION(T, A)                                           \
  template void sparse_attention<T, A>(const AttentionArgs<T, A>&, cudaStream_t); \
  template void sparse_attention_backward<T, A>(const AttentionBackwardArgs<T, A>&, cudaStream_t);

}  // namespace topomask::cuda

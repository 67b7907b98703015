#include "ops/sparse_attention/cpu_kernel.h"

#include "core/largest_exponent.h"
#include "core/simd_exp.h"
#include "ops/row_primitives.h"

namespace topomask::ops::sparse_attention {

namespace {

template <class T>
TOPOMASK_INLINE bool is_clamped(T denominator, T eps) {
  return (denominator < 0 ? -denominator : denominator) < eps;
}

template <class T>
TOPOMASK_INLINE T clamp_denominator(T denominator, T eps) {
  if (!is_clamped(denominator, eps)) return denominator;
  return denominator < 0 ? -eps : eps;
}

/// e = exp(scale·s − max), in place; kLargestExponent is reached only where M = 0.
template <class S>
TOPOMASK_INLINE void softmax_weights(typename S::Scalar* scores, int64_t count, typename S::Scalar scale,
                                     typename S::Scalar max) {
  using Vector = typename S::Vector;
  const Vector limit = Vector{} + kLargestExponent<typename S::Scalar>;
  for (int64_t e = 0; e < count; e += S::kLanes) {
    const Vector exponent = S::load(scores + e) * scale - max;
    S::store(scores + e, exponent > limit ? limit : exponent);
  }
  exponentials(S{}, scores, count);
}

/// The largest scale·s over the entries with M ≠ 0; 0 where there is none.
template <class S>
TOPOMASK_INLINE typename S::Scalar masked_max(const typename S::Scalar* scores, const typename S::Scalar* values,
                                              int64_t count, typename S::Scalar scale) {
  using Quad = typename S::Quad;
  const Quad none = Quad{} - __builtin_huge_val();
  Quad largest = none;
  for (int64_t e = 0; e < count; e += 4) {
    const Quad score = S::load_quad(scores + e) * scale;
    const Quad present = S::load_quad(values + e, count - e) != Quad{} ? score : none;
    largest = present > largest ? present : largest;
  }
  const auto first = largest[0] > largest[1] ? largest[0] : largest[1];
  const auto second = largest[2] > largest[3] ? largest[2] : largest[3];
  const auto max = first > second ? first : second;
  return max == none[0] ? 0 : max;
}

/// Where the block that starts at `row` ends: the rows whose entries fit the buffers, one at least. A kernel finishes
/// one matrix over a block before it turns to the next: rows of k and v that neighbours share then stay in the first
/// cache, which the two together would overflow.
TOPOMASK_INLINE int64_t block_end(const int64_t* offsets, int64_t row, int64_t end) {
  const int64_t limit = offsets[row] + kBlockEntries;
  int64_t last = row + 1;
  while (last < end && offsets[last + 1] <= limit) ++last;
  return last;
}

/// The first `count` ≤ 4 scalars of a quad; writes nothing beyond.
template <class S>
TOPOMASK_INLINE void store_quad(typename S::Scalar* p, typename S::Quad quad, int64_t count) {
  if (count >= 4) return S::store_quad(p, quad);
  for (int64_t lane = 0; lane < count; ++lane) p[lane] = quad[lane];
}

/// Scores become weights M_ij e_ij, in place; writes zeros up to three scalars past `count`. Returns their sum. `kept`
/// takes the scores as they were, unless it is null.
template <class S>
TOPOMASK_INLINE typename S::Scalar apply_mask(typename S::Scalar* scores, const typename S::Scalar* values,
                                              int64_t count, typename S::Scalar* kept) {
  typename S::Quad sum{};
  for (int64_t e = 0; e < count; e += 4) {
    const typename S::Quad score = S::load_quad(scores + e);
    const typename S::Quad weight = score * S::load_quad(values + e, count - e);
    if (kept) store_quad<S>(kept + e, score, count - e);
    S::store_quad(scores + e, weight);
    sum += weight;
  }
  return S::quad_sum(sum);
}

template <class S, bool kSoftmax>
TOPOMASK_INLINE void forward_rows(const AttentionArgs<typename S::Scalar>& args, int64_t begin, int64_t end) {
  using T = typename S::Scalar;
  for (int64_t block = begin; block < end;) {
    const int64_t next = block_end(args.offsets, block, end), base = args.offsets[block];
    for (int64_t i = block; i < next; ++i) {
      const int64_t first = args.offsets[i], count = args.offsets[i + 1] - first;
      const T* values = args.values + first;
      T* scores = args.scores + (first - base);
      prefetch_ahead(args.offsets, args.columns, i, end, args.k, args.features);
      row_dots<S>(args.q + i * args.features, args.k, args.features, args.columns + first, count, scores);
      if constexpr (kSoftmax) {
        args.row_max[i] = masked_max<S>(scores, values, count, args.scale);
        softmax_weights<S>(scores, count, args.scale, args.row_max[i]);
      }
      args.denominator[i] = apply_mask<S>(scores, values, count, args.kept ? args.kept + first : nullptr);
    }
    for (int64_t i = block; i < next; ++i) {
      const int64_t first = args.offsets[i], count = args.offsets[i + 1] - first;
      prefetch_ahead(args.offsets, args.columns, i, end, args.v, args.value_dim);
      gather_row<S>(args.scores + (first - base), args.v, args.value_dim, args.columns + first, count,
                    1 / clamp_denominator(args.denominator[i], args.eps), args.out + i * args.value_dim,
                    args.streaming);
    }
    block = next;
  }
  if (args.streaming) S::end_streaming();
}

/// Stores the results of `count` ≤ 4 entries, from e_ij in `scores` and g_i · v_j in `products`: the two scalars for
/// the pass over columns, grad_values, and ∂L/∂s_ij in place of the products.
template <class S, bool kSoftmax>
TOPOMASK_INLINE void backward_quad(const AttentionBackwardArgs<typename S::Scalar>& args, int64_t first, int64_t count,
                                   const typename S::Scalar* scores, typename S::Scalar* products,
                                   typename S::Scalar mean, typename S::Scalar inverse) {
  using Quad = typename S::Quad;
  const Quad mask = S::load_quad(args.values + first, count), score = S::load_quad(scores, count);
  const Quad grad_weight = (S::load_quad(products) - mean) * inverse;
  Quad grad_score = grad_weight * mask;
  if constexpr (kSoftmax) grad_score *= score * args.scale;
  S::store_quad(products, grad_score);
  const Quad weight = mask * score * inverse;
  auto* entries = args.entries + 2 * first;
  store_quad<S>(entries, __builtin_shufflevector(weight, grad_score, 0, 4, 1, 5), 2 * count);
  store_quad<S>(entries + 4, __builtin_shufflevector(weight, grad_score, 2, 6, 3, 7), 2 * count - 4);
  if (args.grad_values) {
    auto* grad_values = args.grad_values + first;
    Quad grad_mask = grad_weight * score;
    if (args.accumulate_values) grad_mask += S::load_quad(grad_values, count);
    store_quad<S>(grad_values, grad_mask, count);
  }
}

template <class S, bool kSoftmax>
TOPOMASK_INLINE void backward_entries(const AttentionBackwardArgs<typename S::Scalar>& args, int64_t i,
                                      const typename S::Scalar* scores, typename S::Scalar* products) {
  using T = typename S::Scalar;
  using Quad = typename S::Quad;
  const int64_t first = args.offsets[i], count = args.offsets[i + 1] - first, whole = count / 4 * 4;
  const T* values = args.values + first;
  const T inverse = 1 / clamp_denominator(args.denominator[i], args.eps);
  // g_i · out_i, from what is already loaded; a clamped D does not move with A.
  T mean = 0;
  if (!is_clamped(args.denominator[i], args.eps)) {
    Quad sum{};
    for (int64_t e = 0; e < whole; e += 4) {
      sum += S::load_quad(scores + e) * S::load_quad(values + e) * S::load_quad(products + e);
    }
    sum += S::load_quad(scores + whole, count - whole) * S::load_quad(values + whole, count - whole) *
           S::load_quad(products + whole, count - whole);
    mean = S::quad_sum(sum) * inverse;
  }
  for (int64_t e = 0; e < whole; e += 4) {
    backward_quad<S, kSoftmax>(args, first + e, 4, scores + e, products + e, mean, inverse);
  }
  if (whole < count) {
    backward_quad<S, kSoftmax>(args, first + whole, count - whole, scores + whole, products + whole, mean, inverse);
  }
}

template <class S, bool kSoftmax>
TOPOMASK_INLINE void backward_rows(const AttentionBackwardArgs<typename S::Scalar>& args, int64_t begin, int64_t end) {
  for (int64_t block = begin; block < end;) {
    const int64_t next = block_end(args.offsets, block, end), base = args.offsets[block];
    for (int64_t i = args.kept ? next : block; i < next; ++i) {
      const int64_t first = args.offsets[i], count = args.offsets[i + 1] - first;
      auto* scores = args.scores + (first - base);
      row_dots<S>(args.q + i * args.features, args.k, args.features, args.columns + first, count, scores);
      if constexpr (kSoftmax) softmax_weights<S>(scores, count, args.scale, args.row_max[i]);
    }
    const auto* scores = args.kept ? args.kept + base : args.scores;
    for (int64_t i = block; i < next; ++i) {
      const int64_t first = args.offsets[i], count = args.offsets[i + 1] - first;
      auto* products = args.products + (first - base);
      prefetch_ahead(args.offsets, args.columns, i, end, args.v, args.value_dim);
      row_dots<S>(args.grad_out + i * args.value_dim, args.v, args.value_dim, args.columns + first, count, products);
      backward_entries<S, kSoftmax>(args, i, scores + (first - base), products);
    }
    for (int64_t i = block; i < next; ++i) {
      const int64_t first = args.offsets[i], count = args.offsets[i + 1] - first;
      prefetch_ahead(args.offsets, args.columns, i, end, args.k, args.features);
      gather_row<S>(args.products + (first - base), args.k, args.features, args.columns + first, count, 1,
                    args.grad_q + i * args.features, args.streaming);
    }
    block = next;
  }
  if (args.streaming) S::end_streaming();
}

template <class S>
TOPOMASK_INLINE void sparse_attention_rows_body(const AttentionArgs<typename S::Scalar>& args, int64_t begin,
                                                int64_t end) {
  forward_rows<S, false>(args, begin, end);
}

template <class S>
TOPOMASK_INLINE void sparse_softmax_attention_rows_body(const AttentionArgs<typename S::Scalar>& args, int64_t begin,
                                                        int64_t end) {
  forward_rows<S, true>(args, begin, end);
}

template <class S>
TOPOMASK_INLINE void sparse_attention_backward_rows_body(const AttentionBackwardArgs<typename S::Scalar>& args,
                                                         int64_t begin, int64_t end) {
  backward_rows<S, false>(args, begin, end);
}

template <class S>
TOPOMASK_INLINE void sparse_softmax_attention_backward_rows_body(const AttentionBackwardArgs<typename S::Scalar>& args,
                                                                 int64_t begin, int64_t end) {
  backward_rows<S, true>(args, begin, end);
}

/// The two scalars of the entries `begin` to `end` of the transposed pattern, side by side in the two buffers.
template <class S>
TOPOMASK_INLINE void gather_entries(const AttentionColumnArgs<typename S::Scalar>& args, int64_t begin, int64_t end,
                                    int64_t last) {
  using T = typename S::Scalar;
  typedef T Pair __attribute__((vector_size(2 * sizeof(T)), aligned(sizeof(T)), may_alias));
  // The entries of a column lie in as many rows: far apart, and asked for in time; so are the indices of the next
  // block.
  constexpr int64_t kAhead = 128;
  int64_t e = begin;
  for (; e + 4 <= end; e += 4) {
    const int64_t* index = args.t_index + e;
    const int64_t ahead = e + kAhead + 4 <= last ? kAhead : 0;
    for (int64_t n = 0; n < 4; ++n) __builtin_prefetch(args.entries + 2 * index[ahead + n]);
    __builtin_prefetch(index + kBlockEntries);
    Pair pairs[4];
    for (int64_t n = 0; n < 4; ++n) pairs[n] = *reinterpret_cast<const Pair*>(args.entries + 2 * index[n]);
    const auto front = __builtin_shufflevector(pairs[0], pairs[1], 0, 2, 1, 3);
    const auto back = __builtin_shufflevector(pairs[2], pairs[3], 0, 2, 1, 3);
    S::store_quad(args.value_weights + (e - begin), __builtin_shufflevector(front, back, 0, 1, 4, 5));
    S::store_quad(args.key_weights + (e - begin), __builtin_shufflevector(front, back, 2, 3, 6, 7));
  }
  for (; e < end; ++e) {
    args.value_weights[e - begin] = args.entries[2 * args.t_index[e]];
    args.key_weights[e - begin] = args.entries[2 * args.t_index[e] + 1];
  }
}

template <class S>
TOPOMASK_INLINE void sparse_attention_backward_columns_body(const AttentionColumnArgs<typename S::Scalar>& args,
                                                            int64_t begin, int64_t end) {
  for (int64_t block = begin; block < end;) {
    const int64_t next = block_end(args.t_offsets, block, end), base = args.t_offsets[block];
    gather_entries<S>(args, base, args.t_offsets[next], args.t_offsets[end]);
    for (int64_t j = block; j < next; ++j) {
      const int64_t first = args.t_offsets[j], count = args.t_offsets[j + 1] - first;
      prefetch_ahead(args.t_offsets, args.t_columns, j, end, args.q, args.features);
      gather_row<S>(args.key_weights + (first - base), args.q, args.features, args.t_columns + first, count, 1,
                    args.grad_k + j * args.features, args.streaming);
    }
    for (int64_t j = block; j < next; ++j) {
      const int64_t first = args.t_offsets[j], count = args.t_offsets[j + 1] - first;
      prefetch_ahead(args.t_offsets, args.t_columns, j, end, args.grad_out, args.value_dim);
      gather_row<S>(args.value_weights + (first - base), args.grad_out, args.value_dim, args.t_columns + first, count,
                    1, args.grad_v + j * args.value_dim, args.streaming);
    }
    block = next;
  }
  if (args.streaming) S::end_streaming();
}

}  // namespace

TOPOMASK_SIMD_KERNEL(sparse_attention_rows, AttentionArgs)
TOPOMASK_SIMD_KERNEL(sparse_softmax_attention_rows, AttentionArgs)
TOPOMASK_SIMD_KERNEL(sparse_attention_backward_rows, AttentionBackwardArgs)
TOPOMASK_SIMD_KERNEL(sparse_softmax_attention_backward_rows, AttentionBackwardArgs)
TOPOMASK_SIMD_KERNEL(sparse_attention_backward_columns, AttentionColumnArgs)

}  // namespace topomask::ops::sparse_attention

#include "attention/sparse_attention_kernel.h"

#include "core/simd_exp.h"
#include "sparse/row_primitives.h"

namespace topomask {

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

/// e = exp(scale·s − max), in place.
template <class S>
TOPOMASK_INLINE void softmax_weights(typename S::Scalar* scores, int64_t count, typename S::Scalar scale,
                                     typename S::Scalar max) {
  for (int64_t e = 0; e < count; e += S::kLanes) S::store(scores + e, S::load(scores + e) * scale - max);
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

template <class S, bool kSoftmax>
TOPOMASK_INLINE void forward_rows(const AttentionArgs<typename S::Scalar>& args, int64_t begin, int64_t end) {
  using T = typename S::Scalar;
  using Quad = typename S::Quad;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t first = args.offsets[i], count = args.offsets[i + 1] - first;
    const int32_t* columns = args.columns + first;
    const T* values = args.values + first;
    row_dots<S>(args.q + i * args.features, args.k, args.features, columns, count, args.scores);
    if constexpr (kSoftmax) {
      const T max = masked_max<S>(args.scores, values, count, args.scale);
      args.row_max[i] = max;
      softmax_weights<S>(args.scores, count, args.scale, max);
    }
    Quad sum{};
    for (int64_t e = 0; e < count; e += 4) {
      const Quad weight = S::load_quad(args.scores + e) * S::load_quad(values + e, count - e);
      S::store_quad(args.scores + e, weight);
      sum += weight;
    }
    const T denominator = S::quad_sum(sum);
    args.denominator[i] = denominator;
    gather_row<S>(args.scores, args.v, args.value_dim, columns, count, 1 / clamp_denominator(denominator, args.eps),
                  args.out + i * args.value_dim);
  }
}

template <class S, bool kSoftmax>
TOPOMASK_INLINE void backward_rows(const AttentionBackwardArgs<typename S::Scalar>& args, int64_t begin, int64_t end) {
  using T = typename S::Scalar;
  using Quad = typename S::Quad;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t first = args.offsets[i], count = args.offsets[i + 1] - first;
    const int32_t* columns = args.columns + first;
    const T* values = args.values + first;
    const T inverse = 1 / clamp_denominator(args.denominator[i], args.eps);
    row_dots<S>(args.q + i * args.features, args.k, args.features, columns, count, args.scores);
    row_dots<S>(args.grad_out + i * args.value_dim, args.v, args.value_dim, columns, count, args.products);
    if constexpr (kSoftmax) softmax_weights<S>(args.scores, count, args.scale, args.row_max[i]);
    // g_i · out_i, from what is at hand; a clamped D does not move with A.
    T mean = 0;
    if (!is_clamped(args.denominator[i], args.eps)) {
      Quad sum{};
      for (int64_t e = 0; e < count; e += 4) {
        sum += S::load_quad(args.scores + e) * S::load_quad(values + e, count - e) * S::load_quad(args.products + e);
      }
      mean = S::quad_sum(sum) * inverse;
    }
    for (int64_t e = 0; e < count; e += 4) {
      const Quad mask = S::load_quad(values + e, count - e), score = S::load_quad(args.scores + e);
      const Quad grad_weight = (S::load_quad(args.products + e) - mean) * inverse;
      Quad grad_score = grad_weight * mask;
      if constexpr (kSoftmax) grad_score *= score * args.scale;
      S::store_quad(args.products + e, grad_score);
      const Quad weight = mask * score * inverse;
      const Quad grad_mask = grad_weight * score;
      T* entries = args.entries + 2 * (first + e);
      T* grad_values = args.grad_values ? args.grad_values + first + e : nullptr;
      if (e + 4 <= count) {
        S::store_quad(entries, __builtin_shufflevector(weight, grad_score, 0, 4, 1, 5));
        S::store_quad(entries + 4, __builtin_shufflevector(weight, grad_score, 2, 6, 3, 7));
        if (grad_values) {
          S::store_quad(grad_values, args.accumulate_values ? S::load_quad(grad_values) + grad_mask : grad_mask);
        }
      } else {
        for (int64_t lane = 0; lane < count - e; ++lane) {
          entries[2 * lane] = weight[lane];
          entries[2 * lane + 1] = grad_score[lane];
          if (grad_values) {
            grad_values[lane] = args.accumulate_values ? grad_values[lane] + grad_mask[lane] : grad_mask[lane];
          }
        }
      }
    }
    gather_row<S>(args.products, args.k, args.features, columns, count, 1, args.grad_q + i * args.features);
  }
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

template <class S>
TOPOMASK_INLINE void sparse_attention_backward_columns_body(const AttentionColumnArgs<typename S::Scalar>& args,
                                                            int64_t begin, int64_t end) {
  // The entries of a column lie in as many rows: far apart, and asked for in time.
  constexpr int64_t kAhead = 64;
  const int64_t behind = args.t_offsets[end];
  for (int64_t j = begin; j < end; ++j) {
    const int64_t first = args.t_offsets[j], count = args.t_offsets[j + 1] - first;
    const int32_t* rows = args.t_columns + first;
    for (int64_t e = 0; e < count; ++e) {
      const int64_t ahead = first + e + kAhead;
      if (ahead < behind) __builtin_prefetch(args.entries + 2 * args.t_index[ahead]);
      const auto* entry = args.entries + 2 * args.t_index[first + e];
      args.value_weights[e] = entry[0];
      args.key_weights[e] = entry[1];
    }
    gather_row<S>(args.key_weights, args.q, args.features, rows, count, 1, args.grad_k + j * args.features);
    gather_row<S>(args.value_weights, args.grad_out, args.value_dim, rows, count, 1, args.grad_v + j * args.value_dim);
  }
}

}  // namespace

TOPOMASK_SIMD_KERNEL(sparse_attention_rows, AttentionArgs)
TOPOMASK_SIMD_KERNEL(sparse_softmax_attention_rows, AttentionArgs)
TOPOMASK_SIMD_KERNEL(sparse_attention_backward_rows, AttentionBackwardArgs)
TOPOMASK_SIMD_KERNEL(sparse_softmax_attention_backward_rows, AttentionBackwardArgs)
TOPOMASK_SIMD_KERNEL(sparse_attention_backward_columns, AttentionColumnArgs)

}  // namespace topomask

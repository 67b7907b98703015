#pragma once

#include <cstdint>

#include "core/internal_api.h"

// Attention over the entries of a CSR mask M on raw pointers, one (batch, head) slice at a time, for float and double.
// Widths are multiples of kWidthUnit, rows contiguous. The weight of entry (i, j) is A_ij = M_ij e_ij with
//   kernel attention   e = s           de/ds = 1          s = q_i · k_j
//   softmax            e = exp(t·s − max_i)   de/ds = t·e        t the scale
// and out_i = Σ_j A_ij v_j / D_i, D_i = Σ_j A_ij kept at least eps away from zero.

namespace TOPOMASK_INTERNAL_API topomask {
namespace ops::sparse_attention {

/// A kernel works on blocks of rows with at most this many entries, or on one longer row.
inline constexpr int64_t kBlockEntries = 1024;

/// What streaming asks of the addresses it writes to: that of the widest vectors.
inline constexpr int64_t kStreamAlignment = 64;

template <class T>
struct AttentionArgs {
  const int64_t* offsets;
  const int32_t* columns;
  const T* values;
  const T* q;
  const T* k;
  const T* v;
  T* out;
  T* row_max;  ///< softmax only
  T* denominator;
  int64_t features;
  int64_t value_dim;
  T scale;  ///< softmax only
  T eps;
  T* scores;       ///< one scalar per entry of a block, padded
  T* kept;         ///< [entries]: takes e_ij; null where nobody asks for it
  bool streaming;  ///< write `out` past the caches; it is aligned to kStreamAlignment
};
void sparse_attention_rows(const AttentionArgs<float>& args, int64_t begin, int64_t end);
void sparse_attention_rows(const AttentionArgs<double>& args, int64_t begin, int64_t end);
void sparse_softmax_attention_rows(const AttentionArgs<float>& args, int64_t begin, int64_t end);
void sparse_softmax_attention_rows(const AttentionArgs<double>& args, int64_t begin, int64_t end);

/// The pass over rows: grad_q and grad_values are done, and two scalars per entry are left for the pass over columns.
template <class T>
struct AttentionBackwardArgs {
  const int64_t* offsets;
  const int32_t* columns;
  const T* values;
  const T* grad_out;
  const T* q;
  const T* k;
  const T* v;
  const T* row_max;
  const T* denominator;
  T* grad_q;
  T* grad_values;          ///< null where it is not wanted
  bool accumulate_values;  ///< add to grad_values instead of writing it
  T* entries;              ///< [entries, 2]: A_ij / D_i and ∂L/∂s_ij
  int64_t features;
  int64_t value_dim;
  T scale;
  T eps;
  T* scores;       ///< like AttentionArgs::scores
  T* products;     ///< likewise
  const T* kept;   ///< e_ij as the forward left it; null to compute it again
  bool streaming;  ///< write grad_q past the caches
};
void sparse_attention_backward_rows(const AttentionBackwardArgs<float>& args, int64_t begin, int64_t end);
void sparse_attention_backward_rows(const AttentionBackwardArgs<double>& args, int64_t begin, int64_t end);
void sparse_softmax_attention_backward_rows(const AttentionBackwardArgs<float>& args, int64_t begin, int64_t end);
void sparse_softmax_attention_backward_rows(const AttentionBackwardArgs<double>& args, int64_t begin, int64_t end);

/// The pass over columns, through the transposed pattern: grad_k and grad_v.
template <class T>
struct AttentionColumnArgs {
  const int64_t* t_offsets;
  const int32_t* t_columns;
  const int64_t* t_index;
  const T* entries;
  const T* grad_out;
  const T* q;
  T* grad_k;
  T* grad_v;
  int64_t features;
  int64_t value_dim;
  T* key_weights;    ///< one scalar per entry of a block of columns, padded
  T* value_weights;  ///< likewise
  bool streaming;    ///< write grad_k and grad_v past the caches
};
void sparse_attention_backward_columns(const AttentionColumnArgs<float>& args, int64_t begin, int64_t end);
void sparse_attention_backward_columns(const AttentionColumnArgs<double>& args, int64_t begin, int64_t end);

}  // namespace ops::sparse_attention
}  // namespace topomask

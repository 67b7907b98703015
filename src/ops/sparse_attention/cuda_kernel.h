#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <type_traits>

// Attention over the entries of a CSR mask on the GPU: the twins of the kernels in cpu_kernel.h, all
// slices (b, h) in one launch. T is float, double, __nv_bfloat16 or __half, A its accumulation type. Widths are
// multiples of 8, rows are contiguous and 16-byte aligned; those of q, k, v, out and ∂L/∂out may be anywhere,
// everything else is one row after the other. `stream` is where it runs; nothing waits.

namespace topomask::cuda {

template <class A>
struct Pair {
  A weight;      ///< A_ij / D_i
  A grad_score;  ///< ∂L/∂s_ij
};

/// Bytes of a pair in memory: in bfloat16 both are rounded as they will be multiplied, to one word.
template <class T, class A>
inline constexpr int64_t kPairBytes = std::is_same_v<T, __nv_bfloat16> ? 4 : 2 * sizeof(A);

/// From one row, head, batch of a tensor [B, H, N, C] to the next, in values.
struct RowStrides {
  int64_t batch, head, row;
};

template <class T, class A>
struct AttentionArgs {
  const int64_t* offsets;
  const int32_t* columns;
  const int32_t* tiles;  ///< of the rows, ops/row_tiles/layout.h; null where they are not known
  const A* values;
  const T* q;
  const T* k;
  const T* v;
  RowStrides q_strides, k_strides, v_strides, out_strides;
  T* out;
  A* row_max;  ///< softmax; null for kernel attention
  A* denominator;
  int64_t rows, cols, entries;
  int64_t slices, heads, value_heads;
  int features, value_dim;
  int longest_short_row;    ///< long_rows.h
  bool may_have_long_rows;  ///< where it is false, nothing looks for them
  A scale, eps;
};

template <class T, class A>
struct AttentionBackwardArgs {
  AttentionArgs<T, A> forward;  ///< out, row_max and denominator as the forward left them
  const int64_t* t_offsets;
  const int32_t* t_columns;
  const int64_t* t_index;
  const int32_t* t_tiles;
  const T* grad_out;
  RowStrides grad_strides;
  T* grad_q;
  T* grad_k;
  T* grad_v;
  A* grad_values;   ///< [strands, entries], slice s adds to row s mod strands; null where it is not wanted
  int64_t strands;  ///< a multiple of value_heads; `slices` of them take as many threads as there are
  void* pairs;      ///< [slices, entries] of kPairBytes, between the two passes
  int longest_short_column;
  bool may_have_long_columns;
};

/// Whether there are kernels over tiles.
template <class T>
inline constexpr bool kTiled = std::is_same_v<T, __nv_bfloat16>;

template <class T, class A>
void sparse_attention(const AttentionArgs<T, A>& args, cudaStream_t stream);
template <class T, class A>
void sparse_attention_backward(const AttentionBackwardArgs<T, A>& args, cudaStream_t stream);

}  // namespace topomask::cuda

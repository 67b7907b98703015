#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/fused_attention/tile_mask.h"

// Fused attention on the GPU: raw pointers, sizes and a stream.

namespace topomask::cuda {

/// Rows [batch, heads, nodes, width] of T: each is contiguous and starts at a multiple of 16 bytes.
template <class T>
struct FusedRows {
  T* data;
  int64_t batch, head, row;  ///< strides
  int width;                 ///< a multiple of 8, at most 128; of float32 at most 256
};

/// What every pass reads.
template <class T>
struct FusedArgs {
  FusedRows<const T> q, k, v;
  TileMask<float> mask;
  Weighting weighting;
  int batch, heads;
  int window;  ///< offsets: of tiles that see more values than this, at most kLongestWindow, they stay in global memory
  float scale, eps;
  float* denominator;   ///< [batch, heads, nodes], before its clamp
  float* largest;       ///< the same of exponents; softmax alone
  bool tf32 = false;    ///< float32: operands of products rounded to TF32
  int first_slice = 0;  ///< of this launch; launch_fused sets it
};

/// What the backward passes read in addition.
template <class T>
struct FusedGradArgs {
  FusedRows<const T> out, grad;
  float* inverse;  ///< [batch, heads, nodes]: 1 / D with its clamp
  float* delta;    ///< the same: <grad_i, out_i>, 0 where D is clamped
};

/// Tiles of M whose gradients may be added before they are reduced: group g has the tiles (rows[e], columns[e]), in
/// units of `tile` nodes, for first[g] <= e < first[g + 1]; without `first` group g is tile g, by rows. Part p of
/// `parts` takes groups p, 2 parts - 1 - p, 2 parts + p, ...
struct FusedGroups {
  int tile;  ///< 64 or 128
  int groups, parts, splits;
  int first_place;  ///< tables: kLongestTable values from here on are summed
  const int32_t *first, *rows, *columns;
};

/// The longest window in shared memory, and how much of a table a launch sums.
inline constexpr int64_t kLongestWindow = 2048, kLongestTable = 64;

template <class T>
cudaError_t fused_forward(const FusedArgs<T>& args, const FusedRows<T>& out, cudaStream_t stream);

/// inverse and delta, which the other passes want.
template <class T>
cudaError_t fused_statistics(const FusedArgs<T>& args, const FusedGradArgs<T>& grads, cudaStream_t stream);

template <class T>
cudaError_t fused_query_gradient(const FusedArgs<T>& args, const FusedGradArgs<T>& grads, const FusedRows<T>& grad_q,
                                 cudaStream_t stream);

template <class T>
cudaError_t fused_key_gradients(const FusedArgs<T>& args, const FusedGradArgs<T>& grads, const FusedRows<T>& grad_k,
                                const FusedRows<T>& grad_v, cudaStream_t stream);

/// The gradient of mask.values, not of factors, as sums [splits (times parts unless the mask is a matrix), mask.heads,
/// mask.length] to be added up; zero before the call.
template <class T>
cudaError_t fused_mask_gradient(const FusedArgs<T>& args, const FusedGradArgs<T>& grads, const FusedGroups& groups,
                                float* sums, cudaStream_t stream);

// The same in float32, for masks of factors too.
template <>
cudaError_t fused_forward(const FusedArgs<float>& args, const FusedRows<float>& out, cudaStream_t stream);
template <>
cudaError_t fused_statistics(const FusedArgs<float>& args, const FusedGradArgs<float>& grads, cudaStream_t stream);
template <>
cudaError_t fused_query_gradient(const FusedArgs<float>& args, const FusedGradArgs<float>& grads,
                                 const FusedRows<float>& grad_q, cudaStream_t stream);
template <>
cudaError_t fused_key_gradients(const FusedArgs<float>& args, const FusedGradArgs<float>& grads,
                                const FusedRows<float>& grad_k, const FusedRows<float>& grad_v, cudaStream_t stream);
template <>
cudaError_t fused_mask_gradient(const FusedArgs<float>& args, const FusedGradArgs<float>& grads,
                                const FusedGroups& groups, float* sums, cudaStream_t stream);

/// The gradients of both factors [mask.heads, n, rank].
cudaError_t fused_factor_gradients(const FusedArgs<float>& args, const FusedGradArgs<float>& grads, float* left,
                                   float* right, cudaStream_t stream);

}  // namespace topomask::cuda

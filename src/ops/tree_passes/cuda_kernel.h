#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

// The passes of exp(a·dist) over a forest on the GPU: kernels over raw pointers and a stream, for all slices of x
// [slices, N, C] at once. Slice s has the edges of head s mod `heads`.

namespace topomask::cuda {

template <class T>
struct TreeArgs {
  const int32_t* nodes;  ///< HeavyPaths
  const int32_t* offsets;
  const int32_t* parent;
  const int32_t* heavy;
  const int32_t* light_offsets;
  const int32_t* light_children;
  const T* edge;  ///< [heads, N]: e_v = exp(a·w_v)
  const T* x;
  T* inside;   ///< S_v = x_v + Σ_{children c} e_c S_c
  T* beside;   ///< x_p + Σ_{siblings s of v} e_s S_s; zero at roots
  T* outside;  ///< O_v = e_v(beside_v + O_p): what comes from outside the subtree of v
  int64_t size, columns, slices, heads;
};

/// Paths first … last−1, all of one level: their part of `inside`, when the levels below have theirs.
template <class T>
void tree_inside(const TreeArgs<T>& args, int64_t first, int64_t last, cudaStream_t stream);

/// All of `beside`, from all of `inside`.
template <class T>
void tree_beside(const TreeArgs<T>& args, cudaStream_t stream);

/// `outside` on paths of one level, when the level above has it.
template <class T>
void tree_outside(const TreeArgs<T>& args, int64_t first, int64_t last, cudaStream_t stream);

}  // namespace topomask::cuda

#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/hop_pairs/meetings.h"

// Lists of hop pairs on the GPU: kernels over raw pointers and a stream.

namespace topomask::cuda {

template <class T>
struct MeetingArgs {
  ops::hop_pairs::Table<T> left, right;
  const int64_t* offsets;  ///< of the product
  const int32_t* columns;
  int64_t rows, entries;
  int terms;
};

/// The length of each entry's list, to lengths [entries].
template <class T>
void pair_list_lengths(const MeetingArgs<T>& args, int32_t* lengths, cudaStream_t stream);

/// The lists, each from list_offsets[p] on.
template <class T>
void write_pair_lists(const MeetingArgs<T>& args, const int32_t* list_offsets, uint8_t* pairs, T* sums,
                      cudaStream_t stream);

template <class T>
struct PairListArgs {
  const int32_t* offsets;
  const uint8_t* pairs;
  const T* sums;
  int64_t entries;
  int64_t heads;
  int count;  ///< pairs that g has
};

/// values[h, p] = Σ g[h, pair]·sum; g [H, count].
template <class T>
void pair_values(const PairListArgs<T>& args, const T* g, T* values, cudaStream_t stream);

/// Blocks that pair_gradients starts for each head.
int64_t pair_gradient_blocks(int64_t entries);
/// partial[h, pair, block]: sums over the entries of a block, which add up to the gradient of g. No atomics.
template <class T>
void pair_gradients(const PairListArgs<T>& args, const T* grad, double* partial, cudaStream_t stream);

}  // namespace topomask::cuda

#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

// The pattern of a product of sparse matrices on the GPU: kernels over raw pointers and a stream.

namespace topomask::cuda {

/// Where A·Bᵀ can be nonzero: row i is the union of the rows of Bᵀ that row i of A names.
struct PatternArgs {
  const int64_t* a_offsets;
  const int32_t* a_columns;
  const int64_t* bt_offsets;
  const int32_t* bt_columns;
  int64_t rows;
  int64_t cols;       ///< of the product
  uint32_t* words;    ///< for rows too wide for shared memory: `wide_rows` times `cols` bits, zero; left zero
  int64_t wide_rows;  ///< how many such rows are done at a time
};

/// Words that one row's bits take in PatternArgs::words.
inline int64_t pattern_words(int64_t cols) {
  return (cols + 31) / 32;
}

/// lengths[i]: the entries of row i.
void pattern_lengths(const PatternArgs& args, int64_t* lengths, cudaStream_t stream);
/// The columns of every row, ascending, from offsets[i] on.
void pattern_columns(const PatternArgs& args, const int64_t* offsets, int32_t* columns, cudaStream_t stream);

}  // namespace topomask::cuda

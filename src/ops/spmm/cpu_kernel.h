#pragma once

#include <cstdint>

#include "core/internal_api.h"

// Products with a CSR matrix on raw pointers, one (batch, head) slice at a time, for float and double. Widths are
// multiples of kWidthUnit, rows contiguous.

namespace TOPOMASK_INTERNAL_API topomask {
namespace ops::spmm {

/// y_i = Σ_e w_e x[columns[e]] over the entries of row i; w_e is values[e], or values[index[e]] where index is given.
template <class T>
struct SpmmArgs {
  const int64_t* offsets;
  const int32_t* columns;
  const int64_t* index;  ///< null, or the place of each entry in `values`
  const T* values;
  const T* x;
  T* y;
  int64_t width;
  T* buffer;  ///< where index is given: one scalar per entry of the longest row, padded
};
void spmm_rows(const SpmmArgs<float>& args, int64_t begin, int64_t end);
void spmm_rows(const SpmmArgs<double>& args, int64_t begin, int64_t end);

/// out[e] = a_i · b[columns[e]] for the entries e of row i, or added to what is there.
template <class T>
struct SddmmArgs {
  const int64_t* offsets;
  const int32_t* columns;
  const T* a;
  const T* b;
  T* out;
  int64_t width;
  bool accumulate;
  T* buffer;  ///< one scalar per entry of the longest row, padded
};
void sddmm_rows(const SddmmArgs<float>& args, int64_t begin, int64_t end);
void sddmm_rows(const SddmmArgs<double>& args, int64_t begin, int64_t end);

}  // namespace ops::spmm
}  // namespace topomask

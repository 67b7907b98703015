#pragma once

#include <cstdint>

// One step of Clenshaw's recurrence for a series in Chebyshev polynomials of a sparse symmetric matrix, on raw
// pointers, for float and double. Rows are contiguous, their width a multiple of kWidthUnit.

namespace topomask {

/// out_i = scale·((T − shift)·current)_i + coefficient·x_i − previous_i, T = values on the pattern + diagonal. All in
/// registers: memory sees four streams, one more than in a sparse product alone.
template <class T>
struct ClenshawArgs {
  const int64_t* offsets;
  const int32_t* columns;
  const T* values;
  const T* diagonal;
  T shift;
  T scale;
  T coefficient;
  const T* x;
  const T* current;
  const T* previous;  ///< null: zero
  T* out;             ///< may be `previous`
  int64_t width;
};
void clenshaw_rows(const ClenshawArgs<float>& args, int64_t begin, int64_t end);
void clenshaw_rows(const ClenshawArgs<double>& args, int64_t begin, int64_t end);

}  // namespace topomask

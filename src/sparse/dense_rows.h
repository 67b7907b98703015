#pragma once

#include "core/internal_api.h"
#include "topomask/sparse.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// Where the entries of rows first … first+count−1 stand in the count·cols values of these rows: int64 [entries].
/// The caller knows the number of the first of these entries, and how many there are, without waiting for a GPU.
at::Tensor places_in_rows(const SparsePattern& pattern, int64_t first, int64_t count, int64_t first_entry,
                          int64_t entries);

/// Rows first … first+count−1 of a matrix, [H, count, cols]. On a GPU it waits for the device, to know their entries.
at::Tensor dense_rows(const SparseMatrix& matrix, int64_t first, int64_t count);

}  // namespace topomask

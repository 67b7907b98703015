#pragma once

#include <cstdint>

// Values read from a short table at many places, and sums back into it, on raw pointers. A place at or beyond the end
// of the table, or a negative one, means its last value.

namespace topomask::ops::table_lookup {

/// out[e] = table[index[e]] for e in begin … end-1, table of `size` ≥ 1 values.
template <class T>
void table_lookup_range(const int16_t* index, const T* table, int64_t size, T* out, int64_t begin, int64_t end);

/// Neighbouring entries mostly have the same place: they go to rows of their own, so that sums do not wait for each
/// other.
inline constexpr int64_t kTableLanes = 4;

/// sums[e mod kTableLanes][index[e]] += grad[e] for e in begin … end-1, sums [kTableLanes, size].
template <class T>
void table_sums_range(const int16_t* index, const T* grad, int64_t size, double* sums, int64_t begin, int64_t end);

}  // namespace topomask::ops::table_lookup

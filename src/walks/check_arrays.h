#pragma once

#include <cstdint>

#include "topomask/walks.h"

namespace topomask {

/// Refuses arrays that no table has: offsets that fall, columns, hops or counts out of range, rows out of order. For
/// arrays from outside; O(N + T) on all threads.
void check_table_arrays(const char* op, const WalkTable::Arrays& arrays, int64_t nodes, int64_t max_hops);

}  // namespace topomask

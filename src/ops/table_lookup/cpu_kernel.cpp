#include "ops/table_lookup/cpu_kernel.h"

#include <algorithm>

namespace topomask::ops::table_lookup {

namespace {

inline int64_t place(int16_t index, int64_t size) {
  return std::min<int64_t>(static_cast<uint16_t>(index), size - 1);
}

}  // namespace

template <class T>
void table_lookup_range(const int16_t* index, const T* table, int64_t size, T* out, int64_t begin, int64_t end) {
  for (int64_t e = begin; e < end; ++e) out[e] = table[place(index[e], size)];
}

template <class T>
void table_sums_range(const int16_t* index, const T* grad, int64_t size, double* sums, int64_t begin, int64_t end) {
  for (int64_t e = begin; e < end; ++e) sums[e % kTableLanes * size + place(index[e], size)] += grad[e];
}

template void table_lookup_range(const int16_t*, const float*, int64_t, float*, int64_t, int64_t);
template void table_lookup_range(const int16_t*, const double*, int64_t, double*, int64_t, int64_t);
template void table_sums_range(const int16_t*, const float*, int64_t, double*, int64_t, int64_t);
template void table_sums_range(const int16_t*, const double*, int64_t, double*, int64_t, int64_t);

}  // namespace topomask::ops::table_lookup

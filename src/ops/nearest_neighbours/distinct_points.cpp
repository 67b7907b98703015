#include "ops/nearest_neighbours/distinct_points.h"

#include <algorithm>
#include <bit>

namespace topomask::ops::nearest_neighbours {

namespace {

uint64_t hash_point(const double* point, int64_t dims) {
  uint64_t hash = 0;
  for (int64_t d = 0; d < dims; ++d) {
    hash ^= std::bit_cast<uint64_t>(point[d] + 0.0);  // −0 + 0 = 0
    hash *= 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace

DistinctPoints distinct_points(const double* points, int64_t count, int64_t dims) {
  DistinctPoints result;
  result.dims = dims;
  result.places.reserve(count * dims);
  std::vector<int32_t> place_of(count);
  const uint64_t mask = std::bit_ceil(static_cast<uint64_t>(2 * count + 1)) - 1;
  std::vector<int32_t> table(mask + 1, -1);  // open addressing, at most half full
  int32_t distinct = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double* point = points + i * dims;
    uint64_t slot = hash_point(point, dims) & mask;
    while (table[slot] >= 0 && !std::equal(point, point + dims, result.places.begin() + table[slot] * dims)) {
      slot = (slot + 1) & mask;
    }
    if (table[slot] < 0) {
      table[slot] = distinct++;
      result.places.insert(result.places.end(), point, point + dims);
    }
    place_of[i] = table[slot];
  }

  result.offsets.assign(distinct + 1, 0);
  for (int32_t place : place_of) ++result.offsets[place + 1];
  for (int32_t p = 0; p < distinct; ++p) result.offsets[p + 1] += result.offsets[p];
  std::vector<int32_t> next(result.offsets.begin(), result.offsets.end() - 1);
  result.members.resize(count);
  for (int64_t i = 0; i < count; ++i) result.members[next[place_of[i]]++] = static_cast<int32_t>(i);
  return result;
}

}  // namespace topomask::ops::nearest_neighbours

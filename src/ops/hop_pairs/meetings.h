#pragma once

#include <cstdint>

#include "core/host_device.h"

// Where two rows of features meet: what the kernels of both devices share.

namespace topomask::ops::hop_pairs {

template <class T>
struct Table {
  const int64_t* offsets;   ///< features of each row
  const int32_t* columns;   ///< of the features, ascending in a row
  const int64_t* features;  ///< triples of each feature
  const int16_t* hops;
  const T* loads;
};

/// visit(pair, product of loads) for every two triples of row i of a and row j of b at one node, hops below `terms`.
template <class T, class Visit>
TOPOMASK_HOST_DEVICE void for_meetings(const Table<T>& a, int64_t i, const Table<T>& b, int64_t j, int terms,
                                       const Visit& visit) {
  int64_t p = a.offsets[i], q = b.offsets[j];
  const int64_t p_end = a.offsets[i + 1], q_end = b.offsets[j + 1];
  while (p < p_end && q < q_end) {
    const int32_t c = a.columns[p], d = b.columns[q];
    for (int64_t x = a.features[p]; c == d && x < a.features[p + 1]; ++x) {
      const int t = a.hops[x];
      for (int64_t y = b.features[q]; t < terms && y < b.features[q + 1]; ++y) {
        const int u = b.hops[y];
        if (u < terms) visit(t < u ? u * (u + 1) / 2 + t : t * (t + 1) / 2 + u, a.loads[x] * b.loads[y]);
      }
    }
    p += c <= d;
    q += d <= c;
  }
}

/// A set of pair numbers below 256.
struct PairSet {
  uint64_t words[4] = {0, 0, 0, 0};

  TOPOMASK_HOST_DEVICE void add(int pair) { words[pair / 64] |= uint64_t{1} << pair % 64; }
  TOPOMASK_HOST_DEVICE int count() const { return ones(words[0]) + ones(words[1]) + ones(words[2]) + ones(words[3]); }
  /// How many in the set are smaller.
  TOPOMASK_HOST_DEVICE int rank(int pair) const {
    int below = 0;
    for (int w = 0; w < pair / 64; ++w) below += ones(words[w]);
    return below + ones(words[pair / 64] & ((uint64_t{1} << pair % 64) - 1));
  }
  TOPOMASK_HOST_DEVICE static int ones(uint64_t word) {
#ifdef __CUDA_ARCH__
    return __popcll(word);
#else
    return __builtin_popcountll(word);
#endif
  }
};

template <class T>
TOPOMASK_HOST_DEVICE PairSet pairs_of(const Table<T>& a, int64_t i, const Table<T>& b, int64_t j, int terms) {
  PairSet set;
  for_meetings(a, i, b, j, terms, [&](int pair, T) { set.add(pair); });
  return set;
}

/// The list of one entry, in ascending order of pairs, to where it begins.
template <class T>
TOPOMASK_HOST_DEVICE void write_list(const Table<T>& a, int64_t i, const Table<T>& b, int64_t j, int terms,
                                     uint8_t* pairs, T* sums) {
  const PairSet set = pairs_of(a, i, b, j, terms);
  for (int k = 0; k < set.count(); ++k) sums[k] = 0;
  for_meetings(a, i, b, j, terms, [&](int pair, T product) {
    const int k = set.rank(pair);
    pairs[k] = static_cast<uint8_t>(pair);
    sums[k] += product;
  });
}

}  // namespace topomask::ops::hop_pairs

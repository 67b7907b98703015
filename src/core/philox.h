#pragma once

#include <cstdint>

#include "core/host_device.h"

// Counter-based random numbers for host and device: plain functions, so that a loop over counters vectorises.

namespace topomask {

/// Four words: a counter before, random numbers after.
struct PhiloxWords {
  uint32_t a, b, c, d;
};

struct PhiloxKey {
  uint32_t low, high;
};

TOPOMASK_HOST_DEVICE PhiloxKey philox_key(uint64_t seed) {
  return {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
}

/// Round `kRound` of the ten; the key moves on by the golden ratio and by √3 − 1 from round to round.
template <int kRound>
TOPOMASK_HOST_DEVICE PhiloxWords philox_round(PhiloxWords x, PhiloxKey key) {
  const uint64_t first = uint64_t{0xD2511F53u} * x.a, second = uint64_t{0xCD9E8D57u} * x.c;
  return {static_cast<uint32_t>(second >> 32) ^ x.b ^ (key.low + kRound * 0x9E3779B9u), static_cast<uint32_t>(second),
          static_cast<uint32_t>(first >> 32) ^ x.d ^ (key.high + kRound * 0xBB67AE85u), static_cast<uint32_t>(first)};
}

/// Philox4x32-10: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
TOPOMASK_HOST_DEVICE PhiloxWords philox(PhiloxWords counter, PhiloxKey key) {
  PhiloxWords x = philox_round<0>(counter, key);
  x = philox_round<1>(x, key);
  x = philox_round<2>(x, key);
  x = philox_round<3>(x, key);
  x = philox_round<4>(x, key);
  x = philox_round<5>(x, key);
  x = philox_round<6>(x, key);
  x = philox_round<7>(x, key);
  x = philox_round<8>(x, key);
  return philox_round<9>(x, key);
}

/// ⌊word·range/2³²⌋: one of 0 … range−1, each with probability 1/range to 2⁻³².
TOPOMASK_HOST_DEVICE uint32_t random_below(uint32_t word, uint32_t range) {
  return static_cast<uint32_t>((static_cast<uint64_t>(word) * range) >> 32);
}

}  // namespace topomask

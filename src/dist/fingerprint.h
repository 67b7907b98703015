#pragma once

#include <cstdint>

namespace topomask {

/// A bijection of 64 bits in which every bit of the input reaches every bit of the output (the finaliser of SplitMix64,
/// Steele et al. 2014).
inline uint64_t mixed_bits(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace topomask

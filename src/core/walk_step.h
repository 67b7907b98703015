#pragma once

#include "core/philox.h"

// One step of a walk: which random words it takes, whether it halts, where it goes and what its load becomes. The CPU
// and the GPU walk by these functions alone, which is why their walks are the same.
//
// A walker is known by the node it started from and its number. Its words for the hops 2p and 2p + 1 come from one
// counter (start, number, p, 0): halting and direction of the even hop, then of the odd one. Walkers that repel each
// other draw directions together, from counters (start, number of the first of their block, hop, 1 + draw/4).

namespace topomask {

TOPOMASK_HOST_DEVICE PhiloxWords walk_words_of(uint32_t start, uint32_t number, uint32_t pair, PhiloxKey key) {
  return philox({start, number, pair, 0}, key);
}
TOPOMASK_HOST_DEVICE uint32_t halting_word(PhiloxWords words, int64_t hop) {
  return hop % 2 == 0 ? words.a : words.c;
}
TOPOMASK_HOST_DEVICE uint32_t direction_word(PhiloxWords words, int64_t hop) {
  return hop % 2 == 0 ? words.b : words.d;
}

/// Antithetic walkers come in pairs: both take the halting words of the even one, and the odd one adds ½ to them.
TOPOMASK_HOST_DEVICE uint32_t even_of_couple(uint32_t number) {
  return number & ~1u;
}
TOPOMASK_HOST_DEVICE uint32_t half_for_odd(uint32_t number) {
  return number << 31;
}

/// The entry of a row with `degree` > 0 neighbours from entry `row` on that a direction leads to: uniform, or by
/// Walker's alias tables where `threshold` is not null.
TOPOMASK_HOST_DEVICE int64_t step_entry(int64_t row, uint32_t degree, uint32_t direction, const uint32_t* threshold,
                                        const int32_t* alias) {
  const uint64_t product = static_cast<uint64_t>(direction) * degree;
  const int64_t entry = row + static_cast<int64_t>(product >> 32);
  if (threshold == nullptr) return entry;
  return static_cast<uint32_t>(product) < threshold[entry] ? entry : row + alias[entry];
}

/// The load after a step over an entry with that factor: W_uv, or W_uv/q(v|u) where proposals are not uniform; `scale`
/// is 1/(1 − h) of the hop.
template <class T>
TOPOMASK_HOST_DEVICE T step_load(T load, T factor, T scale, uint32_t degree, bool uniform) {
  return load * (factor * (uniform ? scale * static_cast<T>(degree) : scale));
}

/// Word number `draw` of the four of its counter, for walkers that repel each other.
TOPOMASK_HOST_DEVICE PhiloxWords repelling_words(uint32_t start, uint32_t first, uint32_t hop, uint32_t draw,
                                                 PhiloxKey key) {
  return philox({start, first, hop, 1 + draw / 4}, key);
}
TOPOMASK_HOST_DEVICE uint32_t repelling_word(PhiloxWords words, uint32_t draw) {
  const uint32_t which = draw % 4;
  return which == 0 ? words.a : which == 1 ? words.b : which == 2 ? words.c : words.d;
}

}  // namespace topomask

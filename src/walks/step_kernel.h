#pragma once

#include <cstdint>

#include "core/philox.h"

namespace topomask {

/// Walkers at one hop, a column each, ordered by start (in the order of the batch) and then by number. What the next
/// hop makes of them is again such arrays.
template <class T>
struct Walkers {
  uint32_t* start;
  uint32_t* number;
  uint32_t* position;
  T* load;
};

/// Random words of the walkers that were alive at an even hop, for that hop and the next.
struct WalkWords {
  uint32_t* halting[2];
  uint32_t* direction[2];
};

/// `Scalar` is not used: the words are the same for every dtype.
template <class Scalar>
struct WalkWordsArgs {
  const uint32_t* start;
  const uint32_t* number;
  uint32_t pair;  ///< ⌊hop/2⌋
  PhiloxKey key;
  bool antithetic;
  WalkWords words;
};

/// The words of walkers begin … end-1.
void walk_words(const WalkWordsArgs<float>& args, int64_t begin, int64_t end);

/// survivor[…] = the places in 0 … count-1 whose halting number is not below `halt_below`; how many.
int64_t walk_survivors(const uint32_t* halting, const uint32_t* origin, int64_t count, uint32_t halt_below,
                       uint32_t* survivor);

/// One hop of `count` survivors, `from` → `to`. Where `threshold` is null, proposals are uniform.
template <class T>
struct WalkHopArgs {
  Walkers<T> from, to;
  int64_t count;
  const uint32_t* survivor;  ///< their places in `from`
  const uint32_t* origin;    ///< per walker of `from`: its place among the words
  uint32_t* to_origin;       ///< the same for `to`
  const uint32_t* direction;
  const int64_t* offsets;
  const int32_t* columns;
  const T* factors;
  const uint32_t* threshold;
  const int32_t* alias;
  T scale;  ///< 1/(1 − h)
};

/// How many arrived: survivors less those at a dead end.
int64_t walk_hop(const WalkHopArgs<float>& args);
int64_t walk_hop(const WalkHopArgs<double>& args);

}  // namespace topomask

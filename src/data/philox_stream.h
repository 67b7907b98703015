#pragma once

#include <cstdint>

#include "core/philox.h"
#include "data/random_order.h"

namespace topomask {

/// A stream of random numbers for one image or graph: number `index` of `part` (training, test, …) for a purpose.
class PhiloxStream {
 public:
  PhiloxStream(uint64_t seed, uint32_t part, int64_t index, DrawFor purpose)
      : key_(philox_key(seed)), counter_{0, static_cast<uint32_t>(index), part, static_cast<uint32_t>(purpose)} {}

  uint32_t word() {
    if (used_ == 4) {
      words_ = philox(counter_, key_);
      ++counter_.a;
      used_ = 0;
    }
    const uint32_t word = used_ == 0 ? words_.a : used_ == 1 ? words_.b : used_ == 2 ? words_.c : words_.d;
    ++used_;
    return word;
  }

  int64_t below(int64_t range) { return random_below(word(), static_cast<uint32_t>(range)); }

  /// True with this probability, to 2⁻³².
  bool with_probability(double probability) { return static_cast<double>(word()) < probability * 0x1p32; }

 private:
  PhiloxKey key_;
  PhiloxWords counter_, words_{};
  int used_ = 4;
};

}  // namespace topomask

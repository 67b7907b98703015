#pragma once

#include <array>
#include <cstdint>

#include "data/philox_stream.h"

namespace topomask::robot {

/// Random numbers of one episode: a function of its seed, whatever was drawn before.
class Draws {
 public:
  explicit Draws(uint64_t seed) : stream_(seed, 0, 0, DrawFor::robot) {}

  double uniform(double low, double high) { return low + (high - low) * (stream_.word() * 0x1p-32); }
  int64_t below(int64_t range) { return stream_.below(range); }
  bool with_probability(double probability) { return stream_.with_probability(probability); }

 private:
  PhiloxStream stream_;
};

/// The seed of an attempt at episode `index` of a run.
inline uint64_t episode_seed(uint64_t run_seed, int64_t index, uint32_t attempt) {
  const PhiloxWords words = philox({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), attempt,
                                    static_cast<uint32_t>(DrawFor::robot)},
                                   philox_key(run_seed));
  return uint64_t{words.a} << 32 | words.b;
}

}  // namespace topomask::robot

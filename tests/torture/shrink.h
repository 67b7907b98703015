#pragma once

#include <c10/core/Device.h>

#include "torture/case.h"

namespace topomask::torture {

struct Shrunk {
  Draw::Fixed fixed;  ///< the choices that were lowered
  Outcome outcome;    ///< of the smallest case that still fails
  int64_t tries = 0;
};

/// Lowers one choice after the other while the case still fails in the same way (an exception, or a difference in the
/// same tensor).
Shrunk shrink(uint64_t seed, const Draw::Fixed& fixed, const Outcome& failed, at::Device device, double seconds);

/// The arguments that run the case again: `--case SEED name=value …`.
std::string reproducer(uint64_t seed, const Draw::Fixed& fixed, at::Device device);

}  // namespace topomask::torture

#pragma once

#include <cstdint>

#include "topomask/export.h"

namespace TOPOMASK_API topomask {

// Large results on the CPU are written into the memory of results freed before. A new tensor of 64 MiB comes as pages
// that the system zeroes first, which takes a quarter of the time of the attention written into them. What is kept for
// later results is bounded, and the oldest memory is released first.

/// The most bytes kept; 0 keeps nothing. At first an eighth of the machine's memory, 2 GiB at most.
void set_kept_memory_limit(int64_t bytes);
int64_t kept_memory_limit();

/// Bytes kept now, in no tensor.
int64_t kept_memory();

/// Hands all of it back to the system.
void release_kept_memory();

}  // namespace topomask

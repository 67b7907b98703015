#pragma once

#include <cstdint>

#include "topomask/mask.h"

// How much of a problem the routes operator and strips take at once: they compute by it, and the cost model asks.

namespace topomask {

/// A power of two: how many features the operator route applies the mask to at once, for values of that many bytes.
int64_t slice_features(int64_t value_bytes, bool on_cuda);

/// How many rows a strip of a mask with that many heads has.
int64_t strip_rows(int64_t nodes, int64_t heads, bool on_cuda);

/// How many values of scores a strip may have; the batch is cut where it would have more.
int64_t strip_values(bool on_cuda);

/// What strips of a mask are made from.
struct StripSource {
  bool entries = false;  ///< of the sparse form, in place of Mask::rows
  double bytes = 0;      ///< of that form, where the mask does not have it already
};
/// `room`: bytes that it may take.
StripSource strip_source(const MaskCounts& counts, int64_t nodes, int64_t heads, double value_bytes, double room);

}  // namespace topomask

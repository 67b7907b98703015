#pragma once

#include "topomask/sparse.h"

namespace topomask {

/// The pattern of A + I, on the device of A, and where its entries come from.
struct WithDiagonal {
  PatternPtr pattern;
  at::Tensor edges;     ///< int64 [entries of A]: the place of each entry of A
  at::Tensor diagonal;  ///< int64 [N]: the place of each entry of I
};

WithDiagonal with_diagonal(const PatternPtr& pattern);

}  // namespace topomask

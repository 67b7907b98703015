#pragma once

#include <ATen/core/Tensor.h>

#include "core/internal_api.h"
#include "masks/forest/structure/decomposition.h"
#include "topomask/sparse.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// The near pairs of a decomposition as a sparse matrix by node.
struct NearPattern {
  explicit NearPattern(const Decomposition& decomposition);

  PatternPtr pattern;
  at::Tensor index;  ///< int64: which of Decomposition::near each entry is
};

}  // namespace topomask

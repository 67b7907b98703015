#pragma once

#include <vector>

#include "core/internal_api.h"
#include "topomask/sparse.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// The size of a product before it is built, extrapolated from a few evenly spread rows.
struct ProductEstimate {
  double entries = 0;
  double work = 0;  ///< multiply-adds, from left to right
};

/// The estimate for A₀·A₁ᵀ·A₂·A₃ᵀ···. All factors are on one device, where it is made.
ProductEstimate estimate_product(const std::vector<PatternPtr>& factors);

/// The same by tensor operations on any device: what estimate_product does on a GPU, where two sizes a factor are read
/// back.
ProductEstimate estimate_with_tensors(const std::vector<PatternPtr>& factors);

}  // namespace topomask

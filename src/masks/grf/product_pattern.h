#pragma once

#include <vector>

#include "topomask/sparse.h"

namespace topomask {

/// The size of a product before it is built, extrapolated from a few evenly spread rows.
struct ProductEstimate {
  double entries = 0;
  double work = 0;  ///< multiply-adds, from left to right
};

/// Of A₀·A₁ᵀ·A₂·A₃ᵀ···
ProductEstimate estimate_product(const std::vector<PatternPtr>& factors);

}  // namespace topomask

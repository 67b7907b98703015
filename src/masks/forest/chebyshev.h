#pragma once

#include <functional>

#include "masks/forest/separable.h"

namespace topomask {

/// A smooth f(x+y) on 0 ≤ x, y ≤ `reach`, to tolerance·max|f| there: through the Chebyshev polynomial p of f on
/// [0, 2·reach] and those eigenvectors of p(x+y) that matter. Their number, the rank, is a fraction of the degree.
/// Throws where no degree up to 512 meets the tolerance.
SeparablePtr chebyshev_separable(const std::function<double(double)>& f, double reach, double tolerance);

}  // namespace topomask

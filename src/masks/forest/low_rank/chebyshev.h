#pragma once

#include <functional>

#include "masks/forest/low_rank/separable.h"

namespace topomask {

/// A smooth f(x+y) on 0 ≤ x, y ≤ `reach`, to tolerance·max|f| there: through the Chebyshev polynomial p of f on
/// [0, 2·reach] and those eigenvectors of p(x+y) that matter. Their number, the rank, is a fraction of the degree.
/// Where no degree up to 512 meets that, max|f| is that over all distances, `largest`; throws where none meets this.
SeparablePtr chebyshev_separable(const std::function<double(double)>& f, double reach, double tolerance,
                                 double largest = 0);

/// max|f| on [0, length], at a thousand points.
double largest_value(const std::function<double(double)>& f, double length);

}  // namespace topomask

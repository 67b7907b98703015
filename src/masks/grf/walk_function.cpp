#include "masks/grf/walk_function.h"

#include <ATen/ATen.h>

namespace topomask {

bool share_walkers(const WalkTable& a, const WalkTable& b) {
  const WalkOptions &x = a.options(), &y = b.options();
  return a.sampled() && b.sampled() && x.seed == y.seed && x.first_walker < y.first_walker + b.walkers() &&
         y.first_walker < x.first_walker + a.walkers();
}

}  // namespace topomask

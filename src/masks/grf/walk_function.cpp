#include "masks/grf/walk_function.h"

#include <ATen/ATen.h>

namespace topomask {

WalkTable converted(const WalkTable& walks, at::ScalarType dtype) {
  if (dtype == walks.dtype()) return walks;
  const bool products = walks.has_group_products();
  return {{.offsets = walks.offsets(),
           .columns = walks.columns(),
           .hops = walks.hops(),
           .loads = walks.loads().to(dtype),
           .counts = walks.counts(),
           .product_offsets = walks.product_offsets(),
           .product_hops = walks.product_hops(),
           .product_values = products ? walks.product_values().to(dtype) : at::Tensor(),
           .pattern = walks.pattern(),
           .feature_offsets = walks.feature_offsets()},
          walks.options(),
          walks.max_hops(),
          walks.sampled()};
}

bool share_walkers(const WalkTable& a, const WalkTable& b) {
  const WalkOptions &x = a.options(), &y = b.options();
  return a.sampled() && b.sampled() && x.seed == y.seed && x.first_walker < y.first_walker + b.walkers() &&
         y.first_walker < x.first_walker + a.walkers();
}

}  // namespace topomask

#pragma once

#include "topomask/planner.h"

namespace topomask {

// Time and memory of a call by each route, from counts alone. Times are sums of (count × measured cost per unit);
// `bench_planner` measures every route on the CPU over a grid of sizes and prints how far these estimates are off.
RouteEstimate estimate_dense(const MaskCounts& counts, const Workload& workload);
RouteEstimate estimate_sparse(const MaskCounts& counts, const Workload& workload);
RouteEstimate estimate_features(const MaskCounts& counts, const Workload& workload);
RouteEstimate estimate_operator(const Mask& mask, const MaskCounts& counts, const Workload& workload);

namespace gpu {

RouteEstimate estimate_dense(const MaskCounts& counts, const Workload& workload);
RouteEstimate estimate_sparse(double entries, const MaskCounts& counts, const Workload& workload);
RouteEstimate estimate_features(double entries, const MaskCounts& counts, const Workload& workload);
RouteEstimate estimate_operator(const Mask& mask, const MaskCounts& counts, const Workload& workload);

}  // namespace gpu
}  // namespace topomask

#pragma once

#include <algorithm>
#include <optional>

#include "ops/fused_attention/tile_mask.h"
#include "topomask/planner.h"

namespace topomask {

// Time and memory of a call by each route, from counts alone. Times are sums of (count × measured cost per unit);
// `bench_planner` measures every route on the CPU over a grid of sizes and prints how far these estimates are off.
RouteEstimate estimate_dense(const MaskCounts& counts, const Workload& workload);
RouteEstimate estimate_sparse(const MaskCounts& counts, const Workload& workload);
RouteEstimate estimate_features(const MaskCounts& counts, const Workload& workload);
RouteEstimate estimate_operator(const Mask& mask, const MaskCounts& counts, const Workload& workload);
RouteEstimate estimate_fused(const MaskCounts& counts, const Workload& workload, Weighting weighting);

/// The kind of the tiles that a mask offers, and of factors their rank.
struct OfferedTiles {
  std::optional<TileKind> kind;
  double rank = 0;
};
inline OfferedTiles offered_tiles(const MaskCounts& counts, const Workload& workload) {
  if (counts.tiles) return {counts.tiles};
  if (!counts.dense_factors || !counts.factor_entries) return {};
  return {TileKind::factors,
          *counts.factor_entries / (2.0 * static_cast<double>(std::max<int64_t>(1, workload.nodes)))};
}

/// Bytes of a value of q, k, v, and of what it is summed in.
inline double value_bytes(const Workload& workload) {
  return static_cast<double>(c10::elementSize(workload.dtype));
}
inline double sum_bytes(const Workload& workload) {
  return workload.dtype == at::kDouble ? 8 : 4;
}

/// Bytes of v in that type.
inline int64_t values_bytes(const Workload& workload) {
  return workload.slices * workload.nodes * workload.value_dim * static_cast<int64_t>(sum_bytes(workload));
}

namespace cuda {

RouteEstimate estimate_dense(const MaskCounts& counts, const Workload& workload);
RouteEstimate estimate_sparse(double entries, const MaskCounts& counts, const Workload& workload);
RouteEstimate estimate_features(double entries, const MaskCounts& counts, const Workload& workload);
RouteEstimate estimate_operator(const Mask& mask, const MaskCounts& counts, const Workload& workload);
RouteEstimate estimate_fused(const OfferedTiles& tiles, const Workload& workload, Weighting weighting);

}  // namespace cuda
}  // namespace topomask

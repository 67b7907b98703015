#pragma once

#include <algorithm>
#include <optional>

#include "attention/route_slices.h"
#include "ops/fused_attention/tile_mask.h"
#include "topomask/planner.h"

namespace topomask {

// Time and memory of a call by each route, from counts alone. Times are sums of (count × measured cost per unit);
// `bench_planner` measures every route on the CPU over a grid of sizes and prints how far these estimates are off.
RouteEstimate estimate_dense(const MaskCounts& counts, const Workload& workload);
RouteEstimate estimate_sparse(const MaskCounts& counts, const Workload& workload);
RouteEstimate estimate_features(const MaskCounts& counts, const Workload& workload);
RouteEstimate estimate_operator(const Mask& mask, const MaskCounts& counts, const Workload& workload);
/// `learned`: the backward pass makes the gradient of the mask's values too.
RouteEstimate estimate_fused(const MaskCounts& counts, const Workload& workload, Weighting weighting, bool learned);
/// Whether strips are made from the sparse form depends on the budget.
RouteEstimate estimate_strips(const MaskCounts& counts, const Workload& workload, int64_t memory_budget);

/// The kind of the tiles that a mask offers, and of factors their rank.
struct OfferedTiles {
  std::optional<TileKind> kind;
  double rank = 0;
};
inline OfferedTiles offered_tiles(const MaskCounts& counts, const Workload& workload) {
  if (counts.tiles) return {counts.tiles, counts.tile_rank};
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

/// Bytes that strips hold in addition to a sparse form: sums of the keys and values, matrices of a strip, columns of M.
inline double strip_bytes(const Workload& workload) {
  const bool on_cuda = workload.device == at::kCUDA;
  const auto nodes = static_cast<double>(workload.nodes), heads = static_cast<double>(workload.heads);
  const double rows = std::min(nodes, static_cast<double>(strip_rows(workload.nodes, workload.heads, on_cuda)));
  const double at_once = std::min(static_cast<double>(workload.slices) * rows * nodes,
                                  std::max(static_cast<double>(strip_values(on_cuda)), heads * rows * nodes));
  const double width = static_cast<double>(workload.features + workload.value_dim);
  const double sums = workload.training ? static_cast<double>(workload.slices) * nodes * width : 0;
  return sum_bytes(workload) * (sums + (workload.training ? 6 : 3) * at_once + 4 * heads * rows * nodes);
}

inline double room_for_sparse_form(const Workload& workload, int64_t memory_budget) {
  return static_cast<double>(memory_budget) - strip_bytes(workload);
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
RouteEstimate estimate_fused(const OfferedTiles& tiles, const Workload& workload, Weighting weighting, bool learned);

/// Forward and backward together over forward, as measured (docs/performance-gpu.md).
double training_factor(Route route, const MaskCounts& counts, const Workload& workload);
RouteEstimate estimate_strips(const MaskCounts& counts, const Workload& workload, int64_t memory_budget);

}  // namespace cuda
}  // namespace topomask

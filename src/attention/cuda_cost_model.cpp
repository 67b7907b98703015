#include <algorithm>
#include <cmath>

#include "attention/cost_model.h"
#include "attention/route_slices.h"
#include "ops/fused_attention/factor_columns.h"
#include "ops/fused_attention/op.h"
#include "ops/sparse_attention/op.h"

// An H200 (docs/performance-gpu.md): routes made of torch's operations move their tensors through memory, the fused
// kernel gathers rows from the caches.

namespace topomask::cuda {
namespace {

constexpr double kBytes = 3e12;          // bytes a second through memory
constexpr double kGathered = 16e12;      // bytes a second of rows gathered by the sparse kernel
constexpr double kTiled = 35e12;         // the same over tiles: each is read once for sixteen rows
constexpr double kRow = 0.06e-9;         // seconds a row of it, for each byte of a value
constexpr double kColumnBytes = 1.5e12;  // bytes a second of sparse products with many columns
constexpr double kFused = 195e12;        // multiply-adds a second of the fused kernel
constexpr double kFusedRow = 2.5e-12;    // seconds a row of it, for each value of q and v: short ones fill no tile
constexpr double kFusedTf32 = 20e12;     // the same of the one in float32 with operands in TF32
constexpr double kFusedExact = 15e12;    // and exact
constexpr double kFactorSlope = 9e-9;    // seconds a row and column of factors, for their gradient
constexpr double kLaunch = 6e-6;         // seconds to start a kernel

/// Multiply-adds a second of matrix products.
double product_rate(const Workload& w) {
  return value_bytes(w) == 2 ? 150e12 : 20e12;
}

double fused_training_factor(std::optional<TileKind> kind, const Workload& w) {
  if (w.dtype != at::kBFloat16) return 5.6;  // kernels in float32
  return kind && ops::fused_attention::has_values(*kind) ? 5.0 : 3.8;
}

RouteEstimate estimate(Route route, double seconds, double launches, double bytes) {
  return {.route = route, .available = true, .seconds = seconds + launches * kLaunch, .bytes = bytes};
}

}  // namespace

RouteEstimate estimate_dense(const MaskCounts& counts, const Workload& w) {
  const auto slices = static_cast<double>(w.slices), heads = static_cast<double>(w.heads);
  const double pairs = static_cast<double>(w.nodes) * static_cast<double>(w.nodes);
  const double bytes = value_bytes(w);
  const double products = slices * pairs * static_cast<double>(w.features + w.value_dim) / product_rate(w);
  const double passes = (slices * 5 * pairs * bytes + heads * 2 * counts.dense_work * 4) / kBytes;
  return estimate(Route::dense, products + passes, 12, (2 * slices + heads) * pairs * bytes);
}

RouteEstimate estimate_sparse(double entries, const MaskCounts& counts, const Workload& w) {
  const auto slices = static_cast<double>(w.slices), heads = static_cast<double>(w.heads);
  const auto nodes = static_cast<double>(w.nodes), accumulated = sum_bytes(w);
  const double row_bytes = static_cast<double>(w.features + w.value_dim) * value_bytes(w);
  const bool tiled =
      ops::sparse_attention::uses_tiles({w.dtype, w.features, w.value_dim, static_cast<int64_t>(entries), w.device});
  const double gathered = entries * row_bytes / (tiled ? kTiled : kGathered);
  const double kernel = slices * (gathered + nodes * kRow * value_bytes(w));
  const double values = heads * counts.values_work * accumulated / kBytes;
  return estimate(Route::sparse, kernel + values, 4, (heads * entries + slices * nodes) * accumulated);
}

RouteEstimate estimate_features(double entries, const MaskCounts& counts, const Workload& w) {
  const auto slices = static_cast<double>(w.slices), nodes = static_cast<double>(w.nodes);
  const auto m = static_cast<double>(w.features), columns = static_cast<double>(w.value_dim + 1);
  const auto accumulated = sum_bytes(w);
  if (counts.dense_factors) {
    const double rank = entries / std::max(nodes, 1.0);
    return estimate(Route::features,
                    slices * entries * (2 * m * columns / product_rate(w) + 4 * (m + columns) * accumulated / kBytes),
                    6 * rank, slices * nodes * (m + 2 * columns) * accumulated);
  }
  return estimate(Route::features, slices * m * columns * (entries + 4 * nodes) * accumulated / kColumnBytes, 4 * m,
                  slices * nodes * 4 * columns * accumulated);
}

RouteEstimate estimate_operator(const Mask& mask, const MaskCounts& counts, const Workload& w) {
  const auto slices = static_cast<double>(w.slices), nodes = static_cast<double>(w.nodes);
  const auto m = static_cast<double>(w.features), columns = static_cast<double>(w.value_dim + 1);
  const auto accumulated = sum_bytes(w);
  if (const auto work = mask.masked_product_work(w.features, w.value_dim + 1)) {
    return estimate(Route::operator_,
                    slices * (*work / product_rate(w) + nodes * 8 * (m + columns) * accumulated / kBytes), 20,
                    slices * nodes * 4 * (m + columns) * accumulated);
  }
  const auto at_once = static_cast<double>(slice_features(values_bytes(w), true));
  return estimate(Route::operator_,
                  slices * m * columns * (counts.operator_work + 6 * nodes) * accumulated / kColumnBytes,
                  20 * std::ceil(m / at_once), slices * nodes * columns * (3 * at_once + 2) * accumulated);
}

RouteEstimate estimate_fused(const OfferedTiles& tiles, const Workload& w, Weighting weighting, bool learned) {
  const auto slices = static_cast<double>(w.slices), nodes = static_cast<double>(w.nodes);
  const double pairs = slices * nodes * nodes * (*tiles.kind == TileKind::causal ? 0.5 : 1.0);
  const ops::fused_attention::Problem problem{
      w.dtype, w.features, w.value_dim, *tiles.kind, weighting, w.device, static_cast<int64_t>(std::ceil(tiles.rank))};
  const bool columns = ops::fused_attention::takes_columns(problem);
  const bool native = ops::fused_attention::is_native(problem) || columns;
  if (learned && w.nodes > ops::fused_attention::most_learned_nodes(problem)) {
    return {.route = Route::fused, .available = false, .reason = "too many tiles for the gradient of offsets"};
  }
  const double rate = native                  ? kFused * (weighting == Weighting::kernel ? 1.0 : 0.7)
                      : w.dtype == at::kFloat ? kFusedExact
                                              : kFusedTf32;
  // What is not native runs on copies in float32.
  const double copies =
      native || w.dtype == at::kFloat ? 0 : 4.0 * static_cast<double>(2 * w.features + 2 * w.value_dim);
  const double rank = tiles.rank * (columns ? ops::fused_attention::kColumnsOfFactor : 1);
  const double widths = static_cast<double>(w.features + w.value_dim) + rank;
  // Measured for factors that are multiplied: shares of their gradient, a row for each slice, are added up.
  const double slopes = w.training && *tiles.kind == TileKind::factors && !columns
                            ? slices * nodes * tiles.rank * kFactorSlope / fused_training_factor(tiles.kind, w)
                            : 0;
  return estimate(Route::fused, pairs * widths / rate + slices * nodes * widths * kFusedRow + slopes, 4,
                  slices * nodes * (4 * sum_bytes(w) + copies + (columns ? 4 * widths : 0)));
}

double training_factor(Route route, const MaskCounts& counts, const Workload& w) {
  if (route == Route::sparse) return value_bytes(w) == 2 ? 4.3 : 3.8;
  if (route != Route::fused) return 3.5;
  return fused_training_factor(offered_tiles(counts, w).kind, w);
}

RouteEstimate estimate_strips(const MaskCounts& counts, const Workload& w, int64_t memory_budget) {
  const auto slices = static_cast<double>(w.slices), heads = static_cast<double>(w.heads);
  const auto nodes = static_cast<double>(w.nodes), bytes = sum_bytes(w);
  const double products = slices * nodes * nodes * static_cast<double>(w.features + w.value_dim) / product_rate(w);
  const double passes = slices * 5 * nodes * nodes * bytes / kBytes;
  const StripSource source =
      strip_source(counts, w.nodes, w.heads, sum_bytes(w), room_for_sparse_form(w, memory_budget));
  const double making = source.entries
                            ? (nodes * nodes + 8 * *counts.sparse_entries + counts.values_work) * bytes / kBytes
                            : nodes * (counts.operator_work + 6 * nodes) * bytes / kColumnBytes;
  const double strips = std::ceil(nodes / static_cast<double>(strip_rows(w.nodes, w.heads, true)));
  return estimate(Route::strips, products + passes + heads * making, 40 * strips, strip_bytes(w) + source.bytes);
}

}  // namespace topomask::cuda

#include <algorithm>
#include <cmath>

#include "attention/cost_model.h"
#include "attention/routes.h"
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
constexpr double kFused = 200e12;        // multiply-adds a second of the fused kernel
constexpr double kFusedTf32 = 20e12;     // the same of the one in float32 with operands in TF32
constexpr double kFusedExact = 15e12;    // and exact
constexpr double kLaunch = 6e-6;         // seconds to start a kernel

/// Multiply-adds a second of matrix products.
double product_rate(const Workload& w) {
  return value_bytes(w) == 2 ? 150e12 : 20e12;
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

RouteEstimate estimate_fused(const OfferedTiles& tiles, const Workload& w, Weighting weighting) {
  const auto slices = static_cast<double>(w.slices), nodes = static_cast<double>(w.nodes);
  const double pairs = slices * nodes * nodes * (*tiles.kind == TileKind::causal ? 0.5 : 1.0);
  const bool native =
      ops::fused_attention::is_native({w.dtype, w.features, w.value_dim, *tiles.kind, weighting, w.device});
  const double rate = native                  ? kFused * (weighting == Weighting::kernel ? 1.0 : 0.7)
                      : w.dtype == at::kFloat ? kFusedExact
                                              : kFusedTf32;
  // What is not native runs on copies in float32.
  const double copies =
      native || w.dtype == at::kFloat ? 0 : 4.0 * static_cast<double>(2 * w.features + 2 * w.value_dim);
  return estimate(Route::fused, pairs * (static_cast<double>(w.features + w.value_dim) + tiles.rank) / rate, 4,
                  slices * nodes * (4 * sum_bytes(w) + copies));
}

}  // namespace topomask::cuda

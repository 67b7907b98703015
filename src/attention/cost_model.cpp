#include "attention/cost_model.h"

#include <algorithm>
#include <cmath>

#include "attention/route_slices.h"
#include "ops/fused_attention/op.h"
#include "ops/sparse_attention/op.h"

namespace topomask {
namespace {

// Nanoseconds on one core (AVX-512, float32) per unit named, from `bench_planner`. Only their ratios decide between
// routes.
constexpr double kGemm = 0.025;         // multiply-add inside a large matrix product
constexpr double kSmallGemm = 0.04;     // multiply-add inside a batch of small ones
constexpr double kPass = 0.25;          // element read or written once
constexpr double kFresh = 4.0;          // the same in a matrix so large that its pages come fresh from the system
constexpr double kFreshElements = 4e6;  // from where on they do
constexpr double kSparse = 0.04;        // multiply-add of the sparse attention kernel
constexpr double kEntry = 0.9;          // entry visited by it
constexpr double kFactored = 0.045;     // multiply-add of the factored kernel
constexpr double kColumns = 0.055;      // multiply-add of M·X on a slice of columns that fits the last cache
constexpr double kColumnPass = 0.06;    // element of such a slice read or written once
constexpr double kFarColumns = 0.12;    // the same two where it does not
constexpr double kFarColumnPass = 0.15;
constexpr double kTileGemm = 0.0245;      // multiply-add of the fused route
constexpr double kTileEntry = 0.8;        // entry of M that it computes and multiplies with
constexpr double kTileLookup = 2.0;       // the same where it is looked up in a table
constexpr double kTileExponential = 0.4;  // and the exponential of softmax
constexpr double kByte = 0.08;            // byte of q, k, v and the output where they do not fit the last cache
constexpr double kCachedBytes = 24e6;     // what does fit
constexpr double kStripEntry = 12;        // passes for an entry of a sparse mask that goes into a row
constexpr double kCall = 10e3;            // one call of a fused kernel
constexpr double kOperations = 50e3;      // a route made of a dozen tensor operations

/// q, k, v and the output pass through memory once, whatever the route.
double streaming(const Workload& w) {
  const double bytes = static_cast<double>(w.slices * w.nodes * 2 * (w.features + w.value_dim)) * sum_bytes(w);
  return bytes > kCachedBytes ? bytes * kByte : 0;
}

RouteEstimate estimate(Route route, const Workload& w, double parallel_ns, double serial_ns, double elements) {
  const double wide = w.dtype == at::kDouble ? 2.0 : 1.0;  // half as many lanes, twice the bytes
  return {.route = route,
          .available = true,
          .seconds = 1e-9 * ((wide * parallel_ns + streaming(w)) / std::max(w.threads, 1) + serial_ns),
          .bytes = elements * sum_bytes(w)};
}

RouteEstimate unavailable(Route route, const char* reason) {
  return {.route = route, .reason = reason};
}

}  // namespace

RouteEstimate estimate_dense(const MaskCounts& counts, const Workload& w) {
  if (w.device == at::kCUDA) return cuda::estimate_dense(counts, w);
  const auto n = static_cast<double>(w.nodes), slices = static_cast<double>(w.slices);
  const double products = slices * n * n * static_cast<double>(w.features + w.value_dim) * kGemm;
  const double passes = slices * n * n * 3 * (n * n > kFreshElements ? kFresh : kPass);
  const double making = static_cast<double>(w.heads) * counts.dense_work * kPass;
  return estimate(Route::dense, w, products + passes + making, kOperations,
                  (2 * slices + static_cast<double>(w.heads)) * n * n);
}

RouteEstimate estimate_sparse(const MaskCounts& counts, const Workload& w) {
  if (!counts.sparse_entries) return unavailable(Route::sparse, "M has no sparse form");
  const auto known = static_cast<int64_t>(*counts.sparse_entries);
  if (!ops::sparse_attention::supports({w.dtype, w.features, w.value_dim, known, w.device})) {
    return unavailable(Route::sparse, "no kernel for rows of this width");
  }
  if (w.device == at::kCUDA) return cuda::estimate_sparse(*counts.sparse_entries, counts, w);
  const double entries = *counts.sparse_entries, slices = static_cast<double>(w.slices);
  const double kernel = slices * entries * (static_cast<double>(w.features + w.value_dim) * kSparse + kEntry);
  const double values = static_cast<double>(w.heads) * counts.values_work * kPass;
  return estimate(Route::sparse, w, kernel + values, kCall,
                  static_cast<double>(w.heads) * entries + slices * static_cast<double>(w.nodes));
}

RouteEstimate estimate_features(const MaskCounts& counts, const Workload& w) {
  if (!counts.factor_entries) return unavailable(Route::features, "M has no factors");
  if (w.device == at::kCUDA) return cuda::estimate_features(*counts.factor_entries, counts, w);
  const auto n = static_cast<double>(w.nodes), slices = static_cast<double>(w.slices);
  const auto m = static_cast<double>(w.features), columns = static_cast<double>(w.value_dim + 1);
  if (counts.dense_factors) {
    const double passes = slices * *counts.factor_entries * (m + columns) * kPass;
    return estimate(Route::features, w, slices * *counts.factor_entries * m * columns * kGemm + passes, kOperations,
                    slices * n * (m + 2 * columns));
  }
  const double kernel = slices * m * columns * (*counts.factor_entries * kFactored + n * kPass);
  const double values = static_cast<double>(w.heads) * counts.values_work * kPass;
  return estimate(Route::features, w, kernel + values, kOperations, slices * n * 4 * columns);
}

RouteEstimate estimate_operator(const Mask& mask, const MaskCounts& counts, const Workload& w) {
  if (w.device == at::kCUDA) return cuda::estimate_operator(mask, counts, w);
  const auto n = static_cast<double>(w.nodes), slices = static_cast<double>(w.slices);
  const auto m = static_cast<double>(w.features), columns = static_cast<double>(w.value_dim + 1);
  if (const auto work = mask.masked_product_work(w.features, w.value_dim + 1)) {
    return estimate(Route::operator_, w, slices * (*work * kSmallGemm + n * 8 * (m + columns) * kPass), 2 * kOperations,
                    slices * n * 4 * (m + columns));
  }
  const auto at_once = static_cast<double>(slice_features(values_bytes(w), false));
  const double slice_bytes = slices * n * columns * at_once * sum_bytes(w);
  const bool fits = 2 * slice_bytes <= kCachedBytes;  // X and M·X
  const double per_column =
      counts.operator_work * (fits ? kColumns : kFarColumns) + n * 6 * (fits ? kColumnPass : kFarColumnPass);
  return estimate(Route::operator_, w, slices * m * columns * per_column, std::ceil(m / at_once) * kOperations,
                  slices * n * columns * (3 * at_once + 2));
}

RouteEstimate estimate_fused(const MaskCounts& counts, const Workload& w, Weighting weighting, bool learned) {
  const OfferedTiles tiles = offered_tiles(counts, w);
  if (!tiles.kind) return unavailable(Route::fused, "M is not offered in tiles");
  if (!ops::fused_attention::supports({w.dtype, w.features, w.value_dim, *tiles.kind, weighting, w.device})) {
    return unavailable(Route::fused, "no kernel for this mask, width and dtype");
  }
  if (w.device == at::kCUDA) return cuda::estimate_fused(tiles, w, weighting, learned);
  const auto n = static_cast<double>(w.nodes), slices = static_cast<double>(w.slices);
  const double pairs = slices * n * n * (*tiles.kind == TileKind::causal ? 0.5 : 1.0);
  const bool lookup = *tiles.kind == TileKind::places || *tiles.kind == TileKind::hamming;
  const double entry = (lookup ? kTileLookup : kTileEntry) + (weighting == Weighting::kernel ? 0.0 : kTileExponential);
  const double products = static_cast<double>(w.features + w.value_dim) + tiles.rank;
  const double making = static_cast<double>(w.heads) * counts.values_work * kPass;
  // Backward, sixteen tasks share the slices; where there are fewer, parts of the rows have their own sums for the keys
  // and values.
  const double sharing = *tiles.kind == TileKind::matrix ? static_cast<double>(w.heads) : slices;
  const double copies = w.training ? std::clamp(16.0 / std::max(1.0, sharing), 1.0, std::max(1.0, n / 128)) : 0.0;
  return estimate(Route::fused, w, pairs * (products * kTileGemm + entry) + making, kCall,
                  slices * n * (1 + copies * static_cast<double>(w.features + w.value_dim)));
}

RouteEstimate estimate_strips(const MaskCounts& counts, const Workload& w, int64_t memory_budget) {
  if (w.device == at::kCUDA) return cuda::estimate_strips(counts, w, memory_budget);
  const auto n = static_cast<double>(w.nodes), slices = static_cast<double>(w.slices);
  const auto heads = static_cast<double>(w.heads);
  const double products = slices * n * n * static_cast<double>(w.features + w.value_dim) * kGemm;
  const double passes = slices * n * n * 3 * kPass;
  // Rows of M from the entries of its sparse form, or a product for each row.
  const StripSource source =
      strip_source(counts, w.nodes, w.heads, sum_bytes(w), room_for_sparse_form(w, memory_budget));
  const double making = source.entries ? (n * n + kStripEntry * *counts.sparse_entries + counts.values_work) * kPass
                                       : n * (counts.operator_work * kColumns + n * 4 * kColumnPass);
  const double strips = std::ceil(n / static_cast<double>(strip_rows(w.nodes, w.heads, false)));
  RouteEstimate made = estimate(Route::strips, w, products + passes + heads * making, strips * kOperations, 0);
  made.bytes += strip_bytes(w) + source.bytes;
  return made;
}

}  // namespace topomask

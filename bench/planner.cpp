// Suite `planner`: every route over a grid of sizes, masks and widths, with the planner's estimate and choice beside
// each time. `bench/run` holds the time of the chosen route against the best, and the estimates against the times.

#include "topomask/planner.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <memory>
#include <string>

#include "harness.h"
#include "topomask/attention.h"
#include "topomask/masks.h"
#include "topomask/power_series.h"

namespace topomask::bench {
namespace {

constexpr double kTooSlow = 2.0;  ///< seconds a call, by the estimate: not measured

struct Point {
  std::string mask;
  int64_t hops;  ///< 0: neighbours
  int64_t side;
  int64_t features, value_dim;

  std::string name() const { return mask + "_m" + std::to_string(features) + "_d" + std::to_string(value_dim); }
  int64_t nodes() const { return side * side; }

  MaskPtr make_mask() const {
    const Graph graph = Graph::grid({side, side});
    if (hops == 0) return neighbours_mask(graph);
    return power_series_mask(graph.normalised(0.9), at::pow(0.5, at::arange(hops + 1, at::kFloat)));
  }

  Plan plan(const MaskPtr& of) const {
    return plan_attention(*of, {.nodes = nodes(),
                                .features = features,
                                .value_dim = value_dim,
                                .element_size = 4,
                                .threads = at::get_num_threads()});
  }
};

/// The mask for a graph and a number of hops serves all widths, which come one after the other.
MaskPtr mask_of(const Point& point) {
  static std::string key;
  static MaskPtr mask;
  const std::string wanted = point.mask + std::to_string(point.side);
  if (key != wanted) {
    mask.reset();
    mask = point.make_mask();
    key = wanted;
  }
  return mask;
}

Prepared prepare(const Point& point, Route route) {
  const MaskPtr mask = mask_of(point);
  at::manual_seed(point.nodes());
  const at::Tensor q = at::rand({point.nodes(), point.features}) + 0.1, k = at::rand_like(q) + 0.1;
  const at::Tensor v = at::rand({point.nodes(), point.value_dim});
  const auto call = [=] {
    at::NoGradGuard no_grad;
    return Tensors{attention(q, k, v, mask, {.features = FeatureMap::identity(), .route = route})};
  };
  // First, so that the plan knows what a call builds and keeps; as it does from the second call of a layer on.
  const Tensors result = call();
  check_close(to_string(route), result.at(0), attention(q, k, v, mask, {.features = FeatureMap::identity()}), 1e-3);
  const Plan plan = point.plan(mask);
  Prepared prepared{.call = call, .counters = {{"chosen", plan.route == route}}};
  for (const RouteEstimate& estimate : plan.estimates) {
    if (estimate.route != route) continue;
    prepared.counters["estimate_ms"] = estimate.seconds * 1e3;
    prepared.counters["estimate_bytes"] = estimate.bytes;
  }
  return prepared;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const int64_t side : {16, 32, 64, 128, 256}) {
    for (const auto& [mask, hops] : std::vector<std::pair<std::string, int64_t>>{
             {"neighbours", 0}, {"series1", 1}, {"series3", 3}, {"series5", 5}}) {
      for (const auto& [m, d] :
           std::vector<std::pair<int64_t, int64_t>>{{16, 16}, {64, 64}, {128, 128}, {128, 16}, {16, 128}}) {
        const Point point{mask, hops, side, m, d};
        for (const RouteEstimate& estimate : point.plan(mask_of(point)).estimates) {
          if (!estimate.available || estimate.seconds > kTooSlow) continue;
          const Route route = estimate.route;
          all.push_back({.mask = point.name(),
                         .nodes = point.nodes(),
                         .variant = to_string(route),
                         .pass = "forward",
                         .slow = true,
                         .prepare = [=] { return prepare(point, route); }});
        }
      }
    }
  }
  return all;
}

}  // namespace
}  // namespace topomask::bench

int main(int argc, char** argv) {
  return topomask::bench::run(argc, argv, {.suite = "planner", .seconds_per_repetition = 0.05},
                              topomask::bench::cases());
}

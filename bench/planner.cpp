// Suite `planner`: every route over a grid of sizes, masks and widths, with the planner's estimate and choice next to
// each time. `bench/run` holds the time of the chosen route against the best, and the estimates against the times.

#include "topomask/planner.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <functional>
#include <memory>
#include <string>

#include "harness.h"
#include "topomask/attention.h"
#include "topomask/masks.h"
#include "topomask/power_series.h"

namespace topomask::bench {
namespace {

constexpr double kTooSlow = 0.3;  ///< seconds a call, by the estimate: not measured

/// A mask over side × side nodes.
using Maker = std::function<MaskPtr(int64_t side)>;

Maker series(int64_t hops) {
  return [hops](int64_t side) {
    const at::Tensor alpha = at::pow(0.5, at::arange(hops + 1, at::kFloat));
    return power_series_mask(Graph::grid({side, side}).normalised(0.9), alpha);
  };
}

struct Kind {
  std::string name;
  Maker make;
  int64_t largest_side = 128;
};

/// From 5 entries a row to half of all: each route is the best one somewhere.
std::vector<Kind> kinds() {
  return {{"neighbours",
           [](int64_t side) {
             return neighbours_mask(Graph::grid({side, side}));
           }},
          {"series3", series(3)},
          {"series5", series(5)},
          {"series12", series(12)},
          {"tenth", [](int64_t side) { return neighbours_mask(Graph::erdos_renyi(side * side, 0.1)); }, 64},
          {"half", [](int64_t side) { return neighbours_mask(Graph::erdos_renyi(side * side, 0.5)); }, 64},
          {"none", [](int64_t side) { return none_mask(side * side); }},
          {"causal", [](int64_t side) { return causal_mask(side * side); }}};
}

struct Point {
  Kind kind;
  int64_t side;
  int64_t features, value_dim;

  std::string name() const { return kind.name + "_m" + std::to_string(features) + "_d" + std::to_string(value_dim); }
  int64_t nodes() const { return side * side; }

  Plan plan(const MaskPtr& of) const {
    return plan_attention(
        *of, {.nodes = nodes(), .features = features, .value_dim = value_dim, .threads = at::get_num_threads()});
  }
};

/// A mask serves all widths, which come one after the other.
MaskPtr mask_of(const Point& point) {
  static std::string key;
  static MaskPtr mask;
  const std::string wanted = point.kind.name + std::to_string(point.side);
  if (key != wanted) {
    mask.reset();
    mask = point.kind.make(point.side);
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
  for (const int64_t side : {16, 32, 64, 128}) {
    for (const Kind& kind : kinds()) {
      if (side > kind.largest_side) continue;
      for (const auto& [m, d] : std::vector<std::pair<int64_t, int64_t>>{{16, 16}, {64, 64}, {128, 16}, {16, 128}}) {
        const Point point{kind, side, m, d};
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

// Suite `frontier`: how far a mask is from M_α and what it costs, for every way to have it. Square grid of 16 384 nodes
// (at most four neighbours) and random graph of 4 096 (a hundred; two hops reach them all), W = 0.9/√(d_i d_j), f_k =
// 0.5^k to 8 hops, α = f∗f; m = d = 64, float32.
//
// Passes: `attention` with the mask that was made before, `anew` with its walks or powers made from the graph first.
// Counters: `mask_error`, ‖M̂ − M_α‖/‖M_α‖; `graph_error`, ‖M̂ − M_α‖/‖M_α − α₀I‖, which leaves out what every token
// knows of itself; `output_error`, the same of the attention's output, all over a sample of rows and the root mean
// square over seeds; `entries`, stored per row of what is multiplied with.

#include <ATen/ATen.h>

#include <cmath>
#include <map>
#include <memory>

#include "harness.h"
#include "topomask/attention.h"
#include "topomask/coefficients.h"
#include "topomask/grf.h"
#include "topomask/power_series.h"

namespace topomask::bench {
namespace {

constexpr int64_t kWidth = 64;
constexpr int64_t kHops = 8;
constexpr int64_t kRows = 64;
constexpr uint64_t kSeeds = 4;
constexpr double kHalting = 0.2;

/// The graph, the inputs, and what is exact on a sample of rows.
struct Problem {
  explicit Problem(const std::string& graph_name) : name(graph_name) {
    graph = (name == "grid" ? Graph::grid({128, 128}) : Graph::erdos_renyi(4096, 100.0 / 4096, 1)).normalised(0.9);
    const int64_t nodes = graph.num_nodes();
    f = at::pow(0.5, at::arange(kHops + 1, at::kFloat));
    alpha = convolve(f, 2, 2 * kHops + 1);
    at::manual_seed(1);
    for (at::Tensor* x : {&q, &k}) *x = at::rand({nodes, kWidth}) + 0.1;
    v = at::randn({nodes, kWidth});
    rows = std::get<0>(at::randperm(nodes, at::kLong).narrow(0, 0, kRows).sort());
    pick = at::zeros({nodes, kRows}).index_put_({rows, at::arange(kRows)}, at::ones({1}));
    exact = rows_of(*power_series_mask(graph, alpha));
    output = output_of(exact);
  }

  at::Tensor rows_of(const Mask& mask) const {
    const at::NoGradGuard no_grad;
    return mask.matmul_transposed(pick).mT();
  }

  at::Tensor output_of(const at::Tensor& mask_rows) const {
    const at::Tensor weights = mask_rows * at::matmul(q.index_select(0, rows), k.mT());
    return at::matmul(weights, v) / weights.sum(1, /*keepdim=*/true);
  }

  std::string name;
  Graph graph = Graph::path(0);
  at::Tensor f, alpha, q, k, v, rows, pick, exact, output;
};

std::shared_ptr<const Problem> problem_of(const std::string& graph) {
  static std::shared_ptr<const Problem> current;
  if (!current || current->name != graph) current = std::make_shared<const Problem>(graph);
  return current;
}

/// One way to have the mask: made from the problem and a seed.
struct Method {
  std::string name;
  std::function<MaskPtr(const Problem& problem, uint64_t seed)> make;
  bool random = true;
};

WalkOptions walks_of(int64_t walkers, int64_t hops, Coupling coupling, uint64_t seed) {
  return {.walkers = walkers, .halting_probability = kHalting, .max_hops = hops, .coupling = coupling, .seed = seed};
}

/// Φ̂Φ̂ᵀ with an unbiased diagonal; repelling walkers in two ensembles, which that takes.
Method symmetric(const std::string& name, Coupling coupling, int64_t walkers) {
  return {name + "_n" + std::to_string(walkers), [=](const Problem& p, uint64_t seed) {
            WalkOptions walks = walks_of(walkers, kHops, coupling, seed);
            const bool repels = coupling == Coupling::repelling || coupling == Coupling::antithetic_repelling;
            if (repels) walks.ensemble = walkers / 2;
            walks.group_products = true;
            return grf_mask(sample_walks(p.graph, walks), p.f, {.diagonal = Diagonal::debiased});
          }};
}

/// Φ̂ alone, f = α, after `head` exact hops.
Method asymmetric(int64_t head, int64_t walkers) {
  const std::string name = head > 0 ? "hybrid" + std::to_string(head) : "asymmetric";
  return {name + "_n" + std::to_string(walkers), [=](const Problem& p, uint64_t seed) {
            WalkOptions walks = walks_of(walkers, 2 * kHops, Coupling::antithetic_repelling, seed);
            walks.exact_hops = head;
            const WalkTable table = sample_walks(p.graph, walks);
            return asymmetric_grf_mask(head > 0 ? with_exact_head(table, p.graph) : table, p.alpha);
          }};
}

/// The first `hops` hops of the series, exactly.
Method series(int64_t hops) {
  return {"exact_" + std::to_string(hops),
          [=](const Problem& p, uint64_t) { return power_series_mask(p.graph, p.alpha.narrow(0, 0, hops + 1)); },
          /*random=*/false};
}

std::vector<Method> methods(const std::string& graph) {
  std::vector<Method> all;
  for (const int64_t walkers : {4, 16, 64}) {
    all.push_back(symmetric("iid", Coupling::independent, walkers));
    all.push_back(symmetric("antithetic", Coupling::antithetic, walkers));
    all.push_back(symmetric("repelling", Coupling::repelling, walkers));
    all.push_back(symmetric("antithetic_repelling", Coupling::antithetic_repelling, walkers));
    all.push_back(asymmetric(0, walkers));
    all.push_back(asymmetric(1, walkers));
    if (graph == "grid") all.push_back(asymmetric(2, walkers));  // elsewhere that is everything
  }
  for (const int64_t hops : {0, 1, 2, 3, 4, 6, 8}) {
    if (graph == "grid" || hops <= 3) all.push_back(series(hops));
  }
  return all;
}

/// Stored entries per row of what attention multiplies with, by the route it takes.
double entries_of(const Mask& mask, Route route) {
  const MaskCounts counts = mask.counts();
  const auto nodes = static_cast<double>(mask.size());
  const double all = route == Route::dense      ? nodes * nodes
                     : route == Route::sparse   ? counts.sparse_entries.value_or(0)
                     : route == Route::features ? counts.factor_entries.value_or(0)
                                                : counts.operator_work;
  return all / nodes;
}

std::map<std::string, double> errors_of(const Problem& problem, const Method& method) {
  const uint64_t seeds = method.random ? kSeeds : 1;
  double mask = 0, output = 0;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const at::Tensor found = problem.rows_of(*method.make(problem, seed));
    mask += (found - problem.exact).square().sum().item<double>() / static_cast<double>(seeds);
    output += (problem.output_of(found) - problem.output).square().sum().item<double>() / static_cast<double>(seeds);
  }
  const double whole = problem.exact.norm().item<double>();
  const double beyond = (problem.exact - problem.alpha[0] * problem.pick.mT()).norm().item<double>();
  return {{"mask_error", std::sqrt(mask) / whole},
          {"graph_error", std::sqrt(mask) / beyond},
          {"output_error", std::sqrt(output) / problem.output.norm().item<double>()}};
}

Prepared prepare(const std::string& graph, const Method& method, bool anew) {
  const std::shared_ptr<const Problem> problem = problem_of(graph);
  const MaskPtr kept = method.make(*problem, 1);
  const auto attend = [problem](const MaskPtr& mask) -> Tensors {
    const at::NoGradGuard no_grad;
    return {attention(problem->q, problem->k, problem->v, mask, {.features = FeatureMap::identity()})};
  };
  attend(kept);
  const Plan plan = explain(problem->q, problem->k, problem->v, kept, {.features = FeatureMap::identity()});
  Prepared prepared{.call = [=] { return attend(anew ? method.make(*problem, 1) : kept); }, .counters = {}};
  // The errors belong to the method: they are measured once.
  if (!anew) prepared.counters = errors_of(*problem, method);
  prepared.counters["entries"] = entries_of(*kept, plan.route);
  prepared.counters["route"] = static_cast<double>(plan.route);
  return prepared;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const auto& [graph, nodes] : {std::pair<std::string, int64_t>{"grid", 16384}, {"random100", 4096}}) {
    for (const Method& method : methods(graph)) {
      for (const bool anew : {false, true}) {
        all.push_back({.mask = graph,
                       .nodes = nodes,
                       .variant = method.name,
                       .pass = anew ? "anew" : "attention",
                       .slow = true,
                       .prepare = [graph = graph, method, anew] { return prepare(graph, method, anew); }});
      }
    }
  }
  return all;
}

}  // namespace
}  // namespace topomask::bench

int main(int argc, char** argv) {
  return topomask::bench::run(argc, argv, {.suite = "frontier", .slow_repetitions = 3}, topomask::bench::cases());
}

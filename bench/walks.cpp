// Suite `walks`: sampling walks into a table, and features from it. Counters next to the time: walks, steps (hops
// made), triples and nnz (entries of Φ̂) of one call.

#include "topomask/walks.h"

#include <ATen/ATen.h>

#include <filesystem>
#include <iostream>
#include <map>

#include "harness.h"
#include "topomask/graph_io.h"

namespace topomask::bench {
namespace {

struct Sampler {
  std::string name;
  WalkOptions options;
};

std::vector<Sampler> samplers() {
  WalkOptions short_walks{.walkers = 4, .halting_probability = .5, .seed = 7};
  WalkOptions long_walks{.walkers = 20, .halting_probability = .1, .max_hops = 10, .seed = 7};
  WalkOptions repelling{.walkers = 27, .fixed_hops = 3, .coupling = Coupling::repelling, .seed = 7};
  WalkOptions antithetic = long_walks, weighted = long_walks, products = long_walks;
  antithetic.coupling = Coupling::antithetic;
  weighted.proposal = Proposal::weights;
  products.group_products = true;
  return {{"n4_p.5", short_walks},        {"n20_p.1_cap10", long_walks}, {"27_repelling_3", repelling},
          {"n20_antithetic", antithetic}, {"n20_by_weight", weighted},   {"n20_group_products", products}};
}

std::filesystem::path roads_file() {
  return std::filesystem::path(TOPOMASK_DATA_DIR) / "graphs" / "roads-12-cities.txt.gz";
}

/// The graph of the current case; cases come by graph, so one is kept.
const Graph& graph_of(const std::string& name, int64_t nodes) {
  static std::map<std::string, Graph> kept;
  const std::string key = name + std::to_string(nodes);
  const auto found = kept.find(key);
  if (found != kept.end()) return found->second;
  kept.clear();
  const auto make = [&] {
    if (name == "roads") return read_graph(roads_file());
    if (name == "knn") {
      at::manual_seed(1);
      return Graph::knn(at::rand({nodes, 3}), {.k = 3, .directed = true});
    }
    const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(nodes)));
    return Graph::grid({side, side});
  };
  return kept.emplace(key, make().normalised(.9)).first->second;
}

/// The same table by torch operators alone: a step of all walkers at once, then a sort to sum what met.
Tensors torch_table(const Graph& graph, const WalkOptions& options) {
  const int64_t nodes = graph.num_nodes();
  const at::Tensor degrees = graph.degrees(), columns = graph.columns().to(at::kLong);
  const double keep = 1 - options.halting_probability;
  at::Tensor row = at::arange(nodes).repeat_interleave(options.walkers), position = row;
  at::Tensor load = at::ones({row.size(0)});
  std::vector<at::Tensor> keys, loads;
  for (int64_t hop = 0; hop <= options.max_hops && row.size(0) > 0; ++hop) {
    keys.push_back((row * nodes + position) * (options.max_hops + 1) + hop);
    loads.push_back(load);
    const at::Tensor alive = (at::rand({row.size(0)}) < keep).nonzero().squeeze(1);
    row = row.index_select(0, alive);
    position = position.index_select(0, alive);
    const at::Tensor degree = degrees.index_select(0, position);
    const at::Tensor entry = graph.offsets().index_select(0, position) +
                             (at::rand({row.size(0)}, at::kDouble) * degree).to(at::kLong).minimum(degree - 1);
    load = load.index_select(0, alive) * graph.weights().index_select(0, entry) * degree / keep;
    position = columns.index_select(0, entry);
  }
  const auto [unique, inverse, counts] = at::_unique2(at::cat(keys), /*sorted=*/true, /*return_inverse=*/true, true);
  return {unique, at::zeros({unique.size(0)}).index_add_(0, inverse, at::cat(loads)), counts};
}

Prepared prepare_sampling(const Graph& graph, const WalkOptions& options, bool by_torch) {
  const WalkTable table = sample_walks(graph, options);
  const auto walks = static_cast<double>(options.walkers * graph.num_nodes());
  std::map<std::string, double> counters = {{"walks", walks},
                                            {"steps", table.counts().sum().item<double>() - walks},
                                            {"triples", static_cast<double>(table.columns().size(0))},
                                            {"nnz", static_cast<double>(table.pattern()->entries())}};
  if (by_torch) return {.call = [&graph, options] { return torch_table(graph, options); }, .counters = counters};
  return {.call =
              [&graph, options] {
                const WalkTable sampled = sample_walks(graph, options);
                return Tensors{sampled.loads(), sampled.feature_offsets()};
              },
          .counters = counters};
}

Prepared prepare_features(const Graph& graph, const WalkOptions& options, int64_t heads) {
  const WalkTable table = sample_walks(graph, options);
  const at::Tensor f = at::rand({heads, std::min<int64_t>(11, table.max_hops() + 1)});
  return {.call = [table, f] { return Tensors{walk_features(table, f)}; },
          .counters = {{"triples", static_cast<double>(table.columns().size(0))}}};
}

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const std::string& graph, int64_t nodes) {
    for (const Sampler& sampler : samplers()) {
      const bool slow = nodes >= 1'000'000 && sampler.options.walkers > 4;
      const auto add_case = [&](const std::string& pass, auto prepare) {
        all.push_back(
            {.mask = sampler.name, .nodes = nodes, .variant = graph, .pass = pass, .slow = slow, .prepare = prepare});
      };
      const WalkOptions options = sampler.options;
      add_case("sample", [=] { return prepare_sampling(graph_of(graph, nodes), options, false); });
      if (graph != "grid" || nodes != 1'000'000) continue;
      if (sampler.name == "n4_p.5" || sampler.name == "n20_p.1_cap10") {
        for (const int64_t heads : {1, 8}) {
          add_case("features_" + std::to_string(heads),
                   [=] { return prepare_features(graph_of(graph, nodes), options, heads); });
        }
      }
      if (sampler.name == "n4_p.5") {
        add_case("torch", [=] { return prepare_sampling(graph_of(graph, nodes), options, true); });
        all.back().slow = true;
      }
    }
  };
  add("grid", 1'000'000);
  add("knn", 262'144);
  if (std::filesystem::exists(roads_file())) {
    add("roads", 1'988'158);
  } else {
    std::cerr << "no road network at " << roads_file() << ": its cases are left out\n";
  }
  return all;
}

}  // namespace
}  // namespace topomask::bench

int main(int argc, char** argv) {
  return topomask::bench::run(argc, argv, {.suite = "walks", .slow_repetitions = 5}, topomask::bench::cases());
}

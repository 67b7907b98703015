#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "support/compare.h"
#include "topomask/nn/graph_model.h"

namespace topomask::testing {

/// Graphs packed as a data set, with random features, in float64 by default.
inline GraphSet packed(const std::vector<Graph>& graphs, int64_t features, at::ScalarType dtype = at::kDouble) {
  std::vector<Graph> typed;
  for (const Graph& graph : graphs) typed.push_back(graph.to(dtype));
  const GraphBatch batch(typed);
  GraphSet set{.name = "test",
               .graph = batch.graph(),
               .offsets = at::tensor(batch.offsets(), at::kLong),
               .features = at::randn({batch.graph().num_nodes(), features}, dtype),
               .labels = at::zeros({batch.size()}, at::kLong)};
  return set;
}

/// A triangle with a tail, a cycle with a chord, two components, a single node, a random graph.
inline GraphSet small_set(int64_t features = 5) {
  const auto edges = [](int64_t nodes, std::vector<int64_t> from, std::vector<int64_t> to) {
    return Graph::from_edges(nodes, at::tensor(from), at::tensor(to));
  };
  return packed(
      {edges(5, {0, 1, 2, 2, 3}, {1, 2, 0, 3, 4}), edges(7, {0, 1, 2, 3, 4, 5, 6, 0}, {1, 2, 3, 4, 5, 6, 0, 3}),
       edges(6, {0, 1, 3, 4}, {1, 2, 4, 5}), edges(1, {}, {}), Graph::erdos_renyi(35, 0.12, 3)},
      features);
}

/// Trees with parents, the second with a root that is not its first node.
inline GraphSet tree_set(int64_t features = 5) {
  const std::vector<std::vector<int64_t>> parents{{-1, 0, 0, 1, 1, 4}, {2, 0, -1, 2, 3, 3, 5}, {-1}, {-1, 0, 1, 2}};
  std::vector<Graph> graphs;
  std::vector<int64_t> all;
  for (const auto& parent : parents) {
    const auto first = static_cast<int64_t>(all.size());
    for (const int64_t p : parent) all.push_back(p < 0 ? -1 : p + first);
    graphs.push_back(Graph::forest(at::tensor(parent)));
  }
  GraphSet set = packed(graphs, features);
  set.parents = at::tensor(all);
  return set;
}

/// What take(set, graphs) gives, by the public functions of graphs.
inline GraphSample sample_of(const GraphSet& set, const std::vector<int64_t>& graphs) {
  std::vector<at::Tensor> nodes{at::empty({0}, at::kLong)}, members{at::empty({0}, at::kLong)};
  std::vector<Graph> parts;
  for (size_t g = 0; g < graphs.size(); ++g) {
    nodes.push_back(at::arange(set.offsets[graphs[g]].item<int64_t>(), set.offsets[graphs[g] + 1].item<int64_t>()));
    members.push_back(at::full({nodes.back().size(0)}, static_cast<int64_t>(g), at::kLong));
    parts.push_back(induced_subgraph(set.graph, nodes.back()));
  }
  if (parts.empty()) parts.push_back(induced_subgraph(set.graph, nodes.back()));
  const at::Tensor rows = at::cat(nodes);
  return {.graph = GraphBatch(parts).graph(),
          .features = set.features.index_select(0, rows),
          .labels = {},
          .membership = at::cat(members),
          .nodes = rows,
          .parents = {},
          .graphs = static_cast<int64_t>(graphs.size())};
}

inline std::vector<int64_t> all_of(const GraphSet& set) {
  std::vector<int64_t> graphs(static_cast<size_t>(set.size()));
  for (size_t g = 0; g < graphs.size(); ++g) graphs[g] = static_cast<int64_t>(g);
  return graphs;
}

inline std::shared_ptr<GraphModel> double_model(GraphModelOptions options, uint64_t seed = 7) {
  if (options.features == 0) options.features = 5;
  if (options.classes == 0) options.classes = 3;
  auto model = make_graph_model(options, seed);
  model->to(at::kDouble);
  return model;
}

inline at::Tensor run(GraphModel& model, const GraphSet& set, const std::vector<int64_t>& graphs) {
  return model.forward(sample_of(set, graphs), take(model.structure(set), set, graphs));
}

/// One small model of every kind, and transformers and GKAT with every mask that they take. Those over trees want
/// tree_set.
struct Named {
  std::string name;
  GraphModelOptions options;
  bool trees = false;
};

inline std::vector<Named> models_of_every_kind() {
  std::vector<Named> models;
  for (const char* kind : {"gcn", "sgc", "cheb", "gin", "sage", "gat", "transformer_conv"}) {
    GraphModelOptions o;
    o.kind = kind;
    o.width = 6;
    models.push_back({kind, o});
  }
  for (const char* mask : {"none", "grf", "ad_hoc", "series", "diffusion", "gkat", "frequency", "neighbours",
                           "shortest_path", "forest", "spanning_forest", "sequence"}) {
    for (const char* attention : {"relu", "elu", "favor", "softmax", "gkat"}) {
      GraphModelOptions o;
      const bool gkat = std::string(attention) == "gkat";
      o.kind = gkat ? "gkat" : "transformer";
      o.attention = gkat ? "relu" : attention;
      o.mask = mask;
      o.width = gkat ? 5 : 8;
      o.walkers = 6;
      o.hops = 4;
      models.push_back({std::string(attention) + " " + mask, o, std::string(mask) == "forest"});
    }
  }
  for (const char* mask : {"grf", "ad_hoc", "series", "forest", "spanning_forest", "sequence"}) {
    GraphModelOptions o;
    o.kind = "transformer";
    o.mask = mask;
    o.positive_mask = true;
    o.width = 8;
    o.walkers = 6;
    o.hops = 4;
    models.push_back({std::string("relu positive ") + mask, o, std::string(mask) == "forest"});
  }
  return models;
}

inline GraphSet set_for(const Named& named) {
  return named.trees ? tree_set() : small_set();
}

/// The gradients of Σ run()² in the parameters, along a random direction, are the difference of its values. `run` is a
/// function of them, in float64.
inline void expect_gradients_of_differences(const std::vector<at::Tensor>& parameters,
                                            const std::function<at::Tensor()>& run) {
  constexpr double kStep = 1e-8;  // so small that no ReLU changes sides
  const at::Tensor out = run();
  const auto slopes = gradients(out, 2 * out.detach(), parameters);
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> direction;
  double slope = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    direction.push_back(at::randn(parameters[i].sizes(), at::detail::createCPUGenerator(i), at::kDouble));
    slope += (slopes[i] * direction.back()).sum().item<double>();
  }
  const auto moved = [&](double by) {
    for (size_t i = 0; i < parameters.size(); ++i) parameters[i].add_(direction[i], by);
    return run().square().sum().item<double>();
  };
  const double above = moved(kStep), below = moved(-2 * kStep);
  moved(kStep);
  EXPECT_NEAR(slope, (above - below) / (2 * kStep), 1e-5 * std::max(1.0, std::abs(slope)));
}

}  // namespace topomask::testing

#include <ATen/ATen.h>

#include "nn/graph_models/sets.h"
#include "support/peak_memory.h"

// One graph of 200 000 nodes: structure, logits and gradients in memory that is linear in it. What their values are,
// reference.cpp and positions.cpp test on small graphs.

namespace topomask::testing {
namespace {

void expect_linear(const std::string& name, const GraphModelOptions& options, const GraphSet& set) {
  SCOPED_TRACE(name);
  GraphModelOptions o = options;
  o.features = set.num_features();
  o.classes = 3;
  o.node_level = true;
  const auto model = make_graph_model(o, 1);
  const int64_t growth = peak_growth([&] {
    const GraphSample sample{.graph = set.graph,
                             .features = set.features,
                             .labels = {},
                             .membership = at::zeros({set.num_nodes()}, at::kLong),
                             .nodes = {},
                             .parents = {},
                             .graphs = 1};
    const at::Tensor logits = model->forward(sample, model->structure(set));
    EXPECT_TRUE(logits.isfinite().all().item<bool>());
    logits.square().mean().backward();
  });
  constexpr int64_t kPerNode = 16'000;  // bytes; a dense mask would take 800 000
  EXPECT_LT(growth, kPerNode * set.num_nodes());
}

TEST(LargeGraphsSlow, TakeLinearMemory) {
  GraphSet set = packed({Graph::erdos_renyi(200'000, 5.0 / 200'000, 1)}, 4, at::kFloat);
  GraphModelOptions o;
  o.width = 8;
  o.layers = 1;
  o.walkers = 4;
  for (const char* kind : {"gcn", "gat", "gkat"}) {
    o.kind = kind;
    expect_linear(kind, o, set);
  }
  o.kind = "transformer";
  for (const char* mask : {"none", "grf", "series", "diffusion", "gkat", "neighbours", "spanning_forest", "sequence"}) {
    o.mask = mask;
    expect_linear(mask, o, set);
  }
  o.mask = "series";  // products with W in place of powers
  o.max_entries = 1'000'000;
  expect_linear("series by products", o, set);
  o.mask = "gkat";  // walks in place of their kernel
  expect_linear("gkat by factors", o, set);
  o.mask = "none";
  o.max_degree = 8;
  o.laplacian_positions = o.wire = 4;
  o.random_walk_positions = 4;
  expect_linear("positions", o, set);
}

TEST(DirectedGraphs, HaveNoDiffusionByEigenvectors) {
  const Graph graph = Graph::from_edges(3, at::tensor({0, 1}), at::tensor({1, 2}), {}, {.directed = true});
  GraphModelOptions o;
  o.kind = "transformer";
  o.width = 8;
  o.features = 4;
  o.classes = 2;
  o.attention = "softmax";
  o.mask = "diffusion";
  EXPECT_ERROR(make_graph_model(o)->structure(packed({graph}, 4, at::kFloat)),
               "mask diffusion under softmax must have undirected graphs");
}

TEST(LargeGraphs, AreRefusedWhereAllPairsWouldBeNeeded) {
  const GraphSet set = packed({Graph::path(10'000)}, 4, at::kFloat);
  GraphModelOptions o;
  o.kind = "transformer";
  o.width = 8;
  o.features = 4;
  o.classes = 2;
  o.mask = "shortest_path";
  EXPECT_ERROR(make_graph_model(o)->structure(set),
               "mask shortest_path compares all pairs of nodes of a graph, which must be at most max_entries = "
               "67108864, got 1e+08");
  o.mask = "none";
  o.attention = "softmax";
  EXPECT_ERROR(make_graph_model(o)->structure(set), "softmax without a mask compares all pairs");
  o.mask = "diffusion";
  EXPECT_ERROR(make_graph_model(o)->structure(set), "mask diffusion under softmax compares all pairs");
  o.mask = "gkat";
  o.max_entries = 100;
  EXPECT_ERROR(make_graph_model(o)->structure(set),
               "mask gkat must have at most max_entries = 100 entries under softmax");
}

}  // namespace
}  // namespace topomask::testing

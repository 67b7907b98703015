#include "support/golden.h"
#include "walks/helpers.h"

namespace topomask::testing {
namespace {

TEST(WalkTable, IsEmptyForAnEmptyGraph) {
  const WalkTable table = sample_walks(Graph::path(0), {.group_products = true});
  EXPECT_EQ(table.num_nodes(), 0);
  EXPECT_EQ(table.columns().size(0), 0);
  EXPECT_EQ(table.feature_offsets().size(0), 1);
  EXPECT_EQ(table.product_hops().sizes(), (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(walk_features(table, at::ones({3})).size(0), 0);
}

TEST(WalkTable, KeepsIsolatedNodesAtTheirStart) {
  for (const Coupling coupling : {Coupling::independent, Coupling::antithetic, Coupling::repelling}) {
    const WalkTable table = sample_walks(Graph::path(1), {.walkers = 6, .coupling = coupling});
    EXPECT_EQ(table.columns().size(0), 1);
    EXPECT_EQ(table.loads().item<float>(), 6);
    EXPECT_EQ(table.counts().item<int32_t>(), 6);
    EXPECT_EQ(table.hops().item<int16_t>(), 0);
  }
}

TEST(WalkTable, OrdersAndSumsItsTriples) {
  const Graph graph = Graph::grid({5, 9}).normalised(.7);
  for (const int64_t walkers : {1, 3, 40, 700}) {  // short rows, rows of one batch, more walkers than a batch
    const WalkTable table = sample_walks(graph, {.walkers = walkers, .halting_probability = .2, .max_hops = 12});
    const int64_t* offsets = table.offsets().const_data_ptr<int64_t>();
    const int32_t *columns = table.columns().const_data_ptr<int32_t>(),
                  *counts = table.counts().const_data_ptr<int32_t>();
    const int16_t* hops = table.hops().const_data_ptr<int16_t>();
    for (int64_t i = 0; i < table.num_nodes(); ++i) {
      std::vector<int64_t> alive(13, 0);
      for (int64_t q = offsets[i]; q < offsets[i + 1]; ++q) {
        alive[static_cast<size_t>(hops[q])] += counts[q];
        if (q == offsets[i]) continue;
        EXPECT_LT(std::pair(columns[q - 1], hops[q - 1]), std::pair(columns[q], hops[q]));
      }
      EXPECT_EQ(alive[0], walkers);
      EXPECT_TRUE(std::is_sorted(alive.rbegin(), alive.rend()));
    }
    const at::Tensor per_entry = table.feature_offsets().diff();
    EXPECT_EQ(per_entry.sum().item<int64_t>(), table.columns().size(0));
    EXPECT_TRUE(at::equal(at::repeat_interleave(table.pattern()->columns(), per_entry), table.columns()));
  }
}

TEST(WalkTable, TelescopesTheLoadsOfNormalisedWeights) {
  const Graph graph = Graph::star(9).normalised(.6).to(at::kDouble);
  const WalkTable table = sample_walks(graph, {.walkers = 8, .halting_probability = .25, .max_hops = 6});
  const at::Tensor degree = graph.degrees().to(at::kDouble), hops = table.hops().to(at::kDouble);
  const at::Tensor rows = at::repeat_interleave(at::arange(9), table.offsets().diff());
  const at::Tensor expected = table.counts() * at::pow(.6 / .75, hops) *
                              at::sqrt(degree.index({rows}) / degree.index({table.columns().to(at::kLong)}));
  EXPECT_TRUE(close(table.loads(), expected, 1e-6));  // the graph's weights were float32
}

TEST(WalkTable, FollowsTheDtypeOfTheWeights) {
  EXPECT_EQ(sample_walks(Graph::path(4)).dtype(), at::kFloat);
  EXPECT_EQ(sample_walks(Graph::path(4).to(at::kDouble)).dtype(), at::kDouble);
}

TEST(WalkTable, SplitsRepellingWalkersExactly) {
  at::manual_seed(5);
  const Graph cloud = Graph::knn(at::rand({23, 3}), {.k = 3, .directed = true});
  for (const Graph& plain : {petersen(), Graph::complete(4), cloud}) {
    const Graph graph = plain.to(at::kDouble).normalised(.9);
    for (const uint64_t seed : {0, 1, 2}) {
      const WalkTable table =
          sample_walks(graph, {.walkers = 27, .fixed_hops = 3, .coupling = Coupling::repelling, .seed = seed});
      EXPECT_TRUE(close(dense_hops(table), powers(graph, 4), 1e-12));
    }
  }
}

TEST(WalkTable, CountsIndependentGroupsAndTheirPairs) {
  const Graph graph = Graph::cycle(5);
  const auto expect = [&](const WalkOptions& options, int64_t groups, int64_t pairs) {
    const WalkTable table = sample_walks(graph, options);
    EXPECT_EQ(table.groups(), groups);
    EXPECT_EQ(table.independent_pairs(), pairs);
  };
  expect({.walkers = 5}, 5, 20);
  expect({.walkers = 5, .coupling = Coupling::antithetic}, 3, 25 - 4 - 4 - 1);
  expect({.walkers = 6, .coupling = Coupling::repelling}, 1, 0);
  expect({.walkers = 6, .coupling = Coupling::repelling, .ensemble = 3}, 2, 18);
  expect({.walkers = 8, .coupling = Coupling::antithetic_repelling, .ensemble = 2}, 4, 64 - 16);
}

/// G of given walks by its definition.
at::Tensor dense_products(const Graph& graph, const at::Tensor& nodes, const WalkOptions& options, int64_t group) {
  const int64_t n = graph.num_nodes(), terms = nodes.size(2);
  at::Tensor products = at::zeros({n, terms, terms}, at::kDouble);
  for (int64_t first = 0; first < nodes.size(1); first += group) {
    const at::Tensor part = nodes.narrow(1, first, std::min(group, nodes.size(1) - first));
    const WalkTable table = walk_table_from_walks(graph, part, options);
    const at::Tensor r = dense_hops(table).permute({1, 0, 2}) * static_cast<double>(part.size(1));
    products += at::matmul(r, r.transpose(1, 2));
  }
  return products;
}

TEST(WalkTable, KeepsGroupProductsWithRevisits) {
  const auto data = golden("walks_grid5x6");
  const Graph graph = Graph::grid({5, 6}).to(at::kDouble).normalised(.9);
  WalkOptions options{.halting_probability = .3, .max_hops = 7};
  for (const auto& [coupling, group] :
       {std::pair{Coupling::independent, 1}, {Coupling::antithetic, 2}, {Coupling::repelling, 5}}) {
    options.coupling = coupling;
    const at::Tensor expected = dense_products(graph, data.at("nodes").to(at::kLong), options, group);
    options.group_products = true;
    const WalkTable table = walk_table_from_walks(graph, data.at("nodes").to(at::kLong), options);
    options.group_products = false;
    const at::Tensor rows = at::repeat_interleave(at::arange(30), table.product_offsets().diff());
    const at::Tensor t = table.product_hops().select(1, 0).to(at::kLong),
                     u = table.product_hops().select(1, 1).to(at::kLong);
    EXPECT_TRUE((t <= u).all().item<bool>());
    at::Tensor actual = at::zeros({30, 8, 8}, at::kDouble);
    actual.index_put_({rows, t, u}, table.product_values());
    actual.index_put_({rows, u, t}, table.product_values());
    EXPECT_TRUE(close(actual, expected, 1e-12));
  }
}

TEST(WalkTable, IsBuiltFromWalksThatAreBrought) {
  const auto data = golden("walks_grid5x6");
  const Graph graph = Graph::grid({5, 6}).to(at::kDouble).normalised(.9);
  const WalkOptions options{.halting_probability = .3, .max_hops = 7};
  for (const at::ScalarType dtype : {at::kLong, at::kInt}) {
    const WalkTable table = walk_table_from_walks(graph, data.at("nodes").to(dtype), options);
    EXPECT_FALSE(table.sampled());
    EXPECT_EQ(table.walkers(), 5);
    EXPECT_EQ(table.max_hops(), 7);
    const SparseMatrix phi{table.pattern(), walk_features(table, data.at("f"))};
    EXPECT_TRUE(close(phi.dense(), data.at("phi"), 1e-12));
    const SparseMatrix adhoc{table.pattern(), adhoc_features(table, data.at("f"))};
    EXPECT_TRUE(close(at::matmul(adhoc.dense(), adhoc.dense().t()), data.at("mask_adhoc"), 1e-12));
  }
}

TEST(WalkTable, TakesLoadsThatAreBrought) {
  const Graph graph = Graph::path(3).to(at::kDouble);
  const at::Tensor nodes = at::tensor({0, 1, 2, 0, -1, -1, 1, 0, 1, 1, -1, -1, 2, 1, -1, 2, 1, 2}).view({3, 2, 3});
  const at::Tensor loads = at::arange(18, at::kDouble).view({3, 2, 3});
  const WalkTable table = walk_table_from_walks(graph, nodes, {}, loads);
  EXPECT_TRUE(at::equal(table.columns(), at::tensor({0, 1, 2, 0, 1, 1, 1, 2, 2}, at::kInt)));
  EXPECT_TRUE(at::equal(table.hops(), at::tensor({0, 1, 2, 1, 0, 2, 1, 0, 2}, at::kShort)));
  EXPECT_TRUE(at::equal(table.loads(), at::tensor({3., 1., 2., 7., 15., 8., 29., 27., 17.}, at::kDouble)));
}

TEST(WalkTable, RefusesWalksThatAreNone) {
  const Graph graph = Graph::path(3);
  const auto expect = [&](std::vector<int64_t> nodes, const std::string& text, const WalkOptions& options = {}) {
    EXPECT_ERROR(walk_table_from_walks(graph, at::tensor(nodes).view({3, 1, -1}), options),
                 "walk_table_from_walks: " + text);
  };
  expect({0, 2, 1, 2, 2, 1},
         "every step must be an edge that the proposal takes, got 0 -> 2 at hop 1 of walk 0 from node 0");
  expect({0, 1, 2, 1, 2, 1}, "a walk must begin at its start, got 2 first in walk 0 from node 1");
  expect({0, 1, 1, 3, 2, 1}, "nodes must be in [-1, 3), got 3 at hop 1 of walk 0 from node 1");
  expect({0, 1, 1, -2, 2, 1}, "nodes must be in [-1, 3), got -2");
  expect({0, -1, 1, 1, -1, -1, 2, -1, -1}, "nodes must be -1 after the end, got 1 at hop 2");
  expect({0, 1, 0, 1, -1, -1, 2, 1, 0}, "walks must have at most 1 hops, as the options say, got more in walk 0 from",
         {.max_hops = 1});
  EXPECT_ERROR(walk_table_from_walks(graph, at::zeros({3, 1})), "nodes must be int64 or int32 [N = 3, walkers >= 1");
  EXPECT_ERROR(walk_table_from_walks(graph, at::zeros({2, 1, 1}, at::kLong)), "nodes must be int64 or int32 [N = 3");
  EXPECT_ERROR(walk_table_from_walks(graph, at::arange(3).view({3, 1, 1}), {}, at::zeros({3, 1, 1}, at::kDouble)),
               "loads must be Float of the shape of nodes on cpu, got Double[3, 1, 1]");
}

}  // namespace
}  // namespace topomask::testing

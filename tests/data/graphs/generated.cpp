#include <map>
#include <queue>
#include <set>

#include "data/graphs/graph_files.h"
#include "data/graphs/names.h"
#include "support/compare.h"

using namespace topomask;
using namespace topomask::testing;

namespace {

using EdgeSet = std::set<std::pair<int64_t, int64_t>>;

/// The edges of a graph of the set among its nodes from `first` on, counted from there.
EdgeSet edges_of(const GraphSet& set, int64_t graph, int64_t first) {
  const int64_t begin = set.offsets[graph].item<int64_t>() + first, end = set.offsets[graph + 1].item<int64_t>();
  const int64_t* offset = set.graph.offsets().const_data_ptr<int64_t>();
  const int32_t* column = set.graph.columns().const_data_ptr<int32_t>();
  EdgeSet edges;
  for (int64_t i = begin; i < end; ++i) {
    for (int64_t e = offset[i]; e < offset[i + 1]; ++e) {
      if (column[e] > i) edges.emplace(i - begin, column[e] - begin);
    }
  }
  return edges;
}

int64_t nodes_of(const GraphSet& set, int64_t graph) {
  return set.offsets[graph + 1].item<int64_t>() - set.offsets[graph].item<int64_t>();
}

/// Breadth-first distances among the nodes of a graph.
std::vector<int64_t> distances_from(const EdgeSet& edges, int64_t nodes, int64_t start) {
  std::vector<int64_t> distance(static_cast<size_t>(nodes), -1);
  distance[static_cast<size_t>(start)] = 0;
  for (std::queue<int64_t> queue({start}); !queue.empty(); queue.pop()) {
    for (const auto& [from, to] : edges) {
      if (from != queue.front() && to != queue.front()) continue;
      const int64_t next = from == queue.front() ? to : from;
      if (distance[static_cast<size_t>(next)] >= 0) continue;
      distance[static_cast<size_t>(next)] = distance[static_cast<size_t>(queue.front())] + 1;
      queue.push(next);
    }
  }
  return distance;
}

GraphDataOptions few(const std::string& kind, const std::string& motif = "caveman") {
  return {.kind = kind, .motif = motif, .generated_train = 60, .generated_validation = 20, .generated_test = 20};
}

struct MotifCase {
  const char* name;
  int64_t nodes, edges;
  std::map<int64_t, int64_t> degrees;  ///< how many nodes have each degree
  double host_probability;
};

const MotifCase kMotifCases[] = {{"caveman", 9, 12, {{2, 6}, {4, 3}}, .027},
                                 {"cycle", 10, 10, {{2, 10}}, .018},
                                 {"grid", 9, 12, {{2, 4}, {3, 4}, {4, 1}}, .026666},
                                 {"ladder", 10, 13, {{2, 4}, {3, 6}}, .026},
                                 {"circular_ladder", 10, 15, {{3, 10}}, .03}};

void check_motif_graph(const GraphSet& set, int64_t g, const MotifCase& motif, const EdgeSet& expected) {
  const int64_t host = nodes_of(set, g) - motif.nodes;
  const EdgeSet inserted = edges_of(set, g, host), all = edges_of(set, g, 0);
  ASSERT_EQ(static_cast<int64_t>(inserted.size()), motif.edges);
  if (set.labels[g].item<int64_t>() == 1) {
    ASSERT_EQ(inserted, expected);
  }
  const int64_t joins =
      std::count_if(all.begin(), all.end(), [&](const auto& edge) { return edge.first < host && edge.second >= host; });
  ASSERT_GE(joins, 1);
  std::set<int64_t> reached;  // by edges inside the host or inside what was inserted
  for (const auto& [from, to] : all) {
    if ((from < host) == (to < host)) reached.insert({from, to});
  }
  ASSERT_EQ(static_cast<int64_t>(reached.size()), nodes_of(set, g)) << "an isolated node";
}

}  // namespace

TEST(MotifSet, ContainsItsMotif) {
  for (const MotifCase& motif : kMotifCases) {
    const GraphSet set = open_graphs(few("motif", motif.name)).set;
    EXPECT_EQ(set.size(), 100);
    const EdgeSet shape = edges_of(set, 1, nodes_of(set, 1) - motif.nodes);
    std::map<int64_t, int64_t> degree, degrees;
    for (const auto& [from, to] : shape) ++degree[from], ++degree[to];
    for (const auto& [node, count] : degree) ++degrees[count];
    EXPECT_EQ(degrees, motif.degrees) << motif.name;
    const std::vector<int64_t> distance = distances_from(shape, motif.nodes, 0);
    EXPECT_EQ(*std::min_element(distance.begin(), distance.end()), 0) << "not connected";
    for (int64_t g = 0; g < set.size(); ++g) check_motif_graph(set, g, motif, shape);
  }
}

TEST(MotifSet, HasTheShapesOfTheirNames) {
  // What degrees leave open: the caveman's triangles, and that rings are one.
  const GraphSet caveman = open_graphs(few("motif", "caveman")).set;
  const EdgeSet edges = edges_of(caveman, 1, nodes_of(caveman, 1) - 9);
  int64_t triangles = 0;
  for (const auto& [a, b] : edges) {
    for (int64_t c = b + 1; c < 9; ++c) triangles += edges.contains({a, c}) && edges.contains({b, c});
  }
  EXPECT_EQ(triangles, 4);  // three, and the one that joins them
  for (const auto& [name, diameter] :
       std::map<std::string, int64_t>{{"cycle", 5}, {"circular_ladder", 3}, {"grid", 4}}) {
    const GraphSet set = open_graphs(few("motif", name)).set;
    const int64_t nodes = name == "grid" ? 9 : 10;
    const auto distance = distances_from(edges_of(set, 1, nodes_of(set, 1) - nodes), nodes, 0);
    EXPECT_EQ(*std::max_element(distance.begin(), distance.end()), diameter) << name;
  }
}

TEST(MotifSet, HasHostsOfTheProbability) {
  for (const MotifCase& motif : kMotifCases) {
    GraphDataOptions options = few("motif", motif.name);
    options.generated_train = 800;
    const GraphSet set = open_graphs(options).set;
    double edges = 0, joins = 0, pairs = 0;
    for (int64_t g = 0; g < 800; g += 2) {  // each host once
      const int64_t host = nodes_of(set, g) - motif.nodes;
      const EdgeSet all = edges_of(set, g, 0);
      for (const auto& [from, to] : all) {
        edges += to < host ? 1 : 0;
        joins += from < host && to >= host ? 1 : 0;
      }
      pairs += static_cast<double>(host * motif.nodes);
    }
    const double expected = 400 * 4950 * motif.host_probability;
    EXPECT_NEAR(edges, expected, 5 * std::sqrt(expected)) << motif.name;
    // Drawn again where there was none, which divides the mean by 1 − (1 − p)^pairs.
    const double mean_joins = pairs * .004 / (1 - std::pow(1 - .004, pairs / 400));
    EXPECT_NEAR(joins, mean_joins, 5 * std::sqrt(mean_joins)) << motif.name;
  }
}

TEST(MotifSet, IsBalancedAndSplit) {
  const auto [set, split] = open_graphs(few("motif"));
  EXPECT_EQ(set.labels.sum().item<int64_t>(), 50);
  EXPECT_EQ(split.train.size(), 60);
  EXPECT_EQ(split.validation.front(), 60);
  EXPECT_EQ(split.test.front(), 80);
  EXPECT_EQ(split.test.back(), 99);
  for (const auto& part : {split.train, split.validation, split.test}) {
    const at::Tensor labels = set.labels.index_select(0, at::tensor(part, at::kLong));
    EXPECT_EQ(2 * labels.sum().item<int64_t>(), labels.size(0));
  }
}

TEST(MotifSet, HasTheLargestNeighbourDegrees) {
  const GraphSet set = open_graphs(few("motif")).set;
  EXPECT_EQ(set.num_features(), 5);
  const at::Tensor degrees = set.graph.degrees();
  const int64_t* offset = set.graph.offsets().const_data_ptr<int64_t>();
  for (int64_t i = 0; i < 500; ++i) {
    const at::Tensor neighbours = set.graph.columns().slice(0, offset[i], offset[i + 1]).to(at::kLong);
    const at::Tensor sorted = std::get<0>(degrees.index_select(0, neighbours).sort(0, /*descending=*/true));
    const at::Tensor padded = at::cat({sorted, at::zeros({5}, at::kLong)}).slice(0, 0, 5).to(at::kFloat);
    ASSERT_TRUE(set.features[i].equal(padded)) << i;
  }
}

TEST(GeneratedSets, AreTheSameForTheSameSeed) {
  for (const char* kind : {"motif", "cycle"}) {
    GraphDataOptions options = few(kind);
    const GraphSet set = open_graphs(options).set, again = open_graphs(options).set;
    EXPECT_TRUE(set.graph.columns().equal(again.graph.columns()));
    EXPECT_TRUE(set.graph.offsets().equal(again.graph.offsets()));
    EXPECT_TRUE(set.features.equal(again.features));
    // The parts do not depend on each other's sizes: the test graphs stay.
    options.generated_train = 10;
    const GraphSet fewer = open_graphs(options).set;
    EXPECT_EQ(edges_of(fewer, 30, 0), edges_of(set, 80, 0));
    EXPECT_NE(edges_of(set, 0, 0), edges_of(set, 80, 0));
    options.seed = 1;
    EXPECT_NE(edges_of(open_graphs(options).set, 30, 0), edges_of(set, 80, 0));
  }
}

TEST(GeneratedSets, AreTheSameInEveryRelease) {
  const auto checksum = [](const char* kind) {
    const at::Tensor columns = open_graphs(few(kind)).set.graph.columns();
    return crc32(0, static_cast<const unsigned char*>(columns.const_data_ptr()), static_cast<uInt>(columns.nbytes()));
  };
  EXPECT_EQ(checksum("motif"), 3989728165U);
  EXPECT_EQ(checksum("cycle"), 1467613866U);
}

TEST(GeneratedSets, MayHaveEmptyParts) {
  const auto [set, split] = open_graphs(
      {.kind = "cycle", .scaling = "columns", .generated_train = 0, .generated_validation = 0, .generated_test = 0});
  EXPECT_EQ(set.size(), 0);
  EXPECT_EQ(set.features.sizes(), at::IntArrayRef({0, 1}));
  EXPECT_TRUE(split.train.empty());
}

TEST(CycleSet, ClosesATreeByItsLabel) {
  const GraphSet set = open_graphs(few("cycle")).set;
  for (int64_t g = 0; g < set.size(); ++g) {
    ASSERT_EQ(nodes_of(set, g), 50);
    const EdgeSet edges = edges_of(set, g, 0);
    ASSERT_EQ(edges.size(), 50);
    // The nodes that are left when leaves are taken off, again and again, are the cycle.
    EdgeSet ring = edges;
    for (bool changed = true; changed;) {
      std::map<int64_t, int64_t> degree;
      for (const auto& [from, to] : ring) ++degree[from], ++degree[to];
      changed = std::erase_if(ring, [&](const auto& e) { return degree[e.first] == 1 || degree[e.second] == 1; }) > 0;
    }
    ASSERT_GE(ring.size(), 3);
    // Some edge of the ring joined two nodes of a tree: at its diameter for label 1, nearer than that for label 0.
    const bool positive = set.labels[g].item<int64_t>() == 1;
    bool found = false;
    for (const auto& joined : ring) {
      EdgeSet tree = edges;
      tree.erase(joined);
      int64_t diameter = 0;
      for (int64_t i = 0; i < 50; ++i) {
        const auto distance = distances_from(tree, 50, i);
        ASSERT_GE(*std::min_element(distance.begin(), distance.end()), 0) << "not a tree";
        diameter = std::max(diameter, *std::max_element(distance.begin(), distance.end()));
      }
      const auto apart = static_cast<int64_t>(ring.size()) - 1;
      found = found || (positive ? apart == diameter : apart < diameter);
    }
    ASSERT_TRUE(found) << "graph " << g;
  }
  EXPECT_EQ(set.labels.sum().item<int64_t>(), 50);
}

TEST(CycleSet, HasStandardisedDegrees) {
  const GraphSet set = open_graphs(few("cycle")).set;
  const at::Tensor features = set.features.reshape({100, 50});
  EXPECT_TRUE(close(features.mean(1), at::zeros({100}), 1, 1e-6));
  const at::Tensor degrees = set.graph.degrees().reshape({100, 50}).to(at::kDouble);
  const at::Tensor expected = (degrees - degrees.mean(1, true)) / degrees.std(1, /*unbiased=*/false, true);
  EXPECT_TRUE(close(features, expected, 1e-5));
}

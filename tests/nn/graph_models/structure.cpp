#include <ATen/ATen.h>

#include "nn/graph_models/sets.h"
#include "topomask/grf.h"
#include "topomask/node_kernel.h"

namespace topomask::testing {
namespace {

GraphStructure made_of(const GraphSet& set) {
  GraphStructure structure;
  structure.node["features"] = set.features;
  structure.node["place"] = at::arange(set.num_nodes());
  structure.matrices.emplace("graph", set.graph.matrix());
  structure.matrices.emplace("heads",
                             SparseMatrix{set.graph.pattern(), at::rand({3, set.graph.num_entries()}, at::kDouble)});
  structure.walks.emplace(
      "walks", sample_walks(set.graph.normalised(), {.walkers = 5, .max_hops = 4, .group_products = true, .seed = 2}));
  return structure;
}

TEST(GraphStructure, TakesRowsMatricesAndWalksOfGraphs) {
  const GraphSet set = small_set();
  const GraphStructure all = made_of(set);
  const std::vector<int64_t> graphs{4, 1, 3, 1};
  const GraphStructure part = take(all, set, graphs);
  const GraphSample sample = sample_of(set, {4, 3, 1});
  const at::Tensor nodes = at::cat({at::arange(19, 54), at::arange(5, 12), at::arange(18, 19), at::arange(5, 12)});
  EXPECT_TRUE(at::equal(part.node.at("place"), nodes));
  EXPECT_TRUE(at::equal(part.node.at("features"), set.features.index_select(0, nodes)));
  const at::Tensor member = at::cat({at::full({35}, 0), at::full({7}, 1), at::full({1}, 2), at::full({7}, 3)});
  const at::Tensor together = (member.unsqueeze(1) == member).to(at::kDouble);
  const auto block = [&](const at::Tensor& dense) {
    return dense.index_select(-1, nodes).index_select(-2, nodes) * together;
  };
  for (const char* name : {"graph", "heads"}) {
    EXPECT_TRUE(at::equal(part.matrices.at(name).dense(), block(all.matrices.at(name).dense()))) << name;
  }
  const WalkTable &walks = part.walks.at("walks"), &whole = all.walks.at("walks");
  const at::Tensor f = at::rand({2, 5}, at::kDouble);
  EXPECT_TRUE(close(grf_mask(walks, f)->dense(), block(grf_mask(whole, f)->dense()), 1e-13));
  const GrfOptions debiased{.diagonal = Diagonal::debiased};
  EXPECT_TRUE(close(grf_mask(walks, f, debiased)->dense(), block(grf_mask(whole, f, debiased)->dense()), 1e-13));
  EXPECT_TRUE(close(node_kernel_mask(walks)->dense(), block(node_kernel_mask(whole)->dense()), 1e-13));
  EXPECT_FALSE(walks.sampled());
}

TEST(GraphStructure, OfAllGraphsInOrderIsShared) {
  const GraphSet set = small_set();
  const GraphStructure all = made_of(set);
  EXPECT_EQ(take(all, set, all_of(set)).matrices.at("graph").pattern, all.matrices.at("graph").pattern);
  EXPECT_EQ(take(all, set, {}).node.at("place").size(0), 0);
  EXPECT_EQ(take(all, set, {}).walks.at("walks").num_nodes(), 0);
}

TEST(GraphStructure, MovesToAnotherPrecision) {
  const GraphSet set = small_set();
  const GraphStructure single = made_of(set).to(at::kFloat);
  EXPECT_EQ(single.node.at("features").scalar_type(), at::kFloat);
  EXPECT_EQ(single.node.at("place").scalar_type(), at::kLong);
  EXPECT_EQ(single.matrices.at("heads").values.scalar_type(), at::kFloat);
  EXPECT_EQ(single.walks.at("walks").dtype(), at::kFloat);
}

}  // namespace
}  // namespace topomask::testing

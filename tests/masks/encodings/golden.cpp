// Kernels and encodings, against matrices made apart from this library.

#include "support/golden.h"

#include "support/compare.h"
#include "topomask/encodings.h"
#include "topomask/node_kernel.h"

namespace topomask {
namespace {

using testing::close;

void expect_dense(const MaskPtr& mask, const at::Tensor& expected) {
  EXPECT_TRUE(close(mask->dense(), expected, 1e-10)) << mask->name();
  EXPECT_TRUE(close(mask->Mask::dense(), expected, 1e-10)) << mask->name() << ", by products";
  if (const auto matrix = mask->sparse()) {
    EXPECT_TRUE(close(matrix->dense(), expected, 1e-10)) << mask->name();
  }
}

TEST(EncodingsGolden, NodeKernelsAreTheReferenceOnes) {
  const auto values = testing::golden("walks_grid5x6");
  const Graph graph = Graph::from_edges(30, values.at("src"), values.at("dst"), {}, {.directed = true}).to(at::kDouble);
  const WalkTable walks = walk_table_from_walks(graph, values.at("nodes"), {.halting_probability = 0.3, .max_hops = 7});
  const at::Tensor& discount = values.at("gkat_discount");
  EXPECT_TRUE(close(SparseMatrix({walks.pattern(), walk_frequencies(walks, discount)}).dense(),
                    values.at("gkat_frequency"), 1e-10));
  expect_dense(node_kernel_mask(walks, discount, {.alpha = 0}), values.at("gkat_plain"));
  expect_dense(node_kernel_mask(walks, discount), values.at("gkat_cosine"));
  expect_dense(node_kernel_mask(walks, discount, {.p = 1}), values.at("gkat_l1"));
  expect_dense(node_frequency_mask(walks, discount), values.at("gkat_rowwise"));
}

TEST(EncodingsGolden, CentralityAndShortestPathsAreTheReferenceOnes) {
  const auto values = testing::golden("encodings_er30");
  const Graph graph = Graph::from_edges(30, values.at("src"), values.at("dst"), {}, {.directed = true});
  expect_dense(centrality_mask(graph, values.at("z")), values.at("centrality"));
  expect_dense(centrality_mask(graph, values.at("z").logit(), {.logits = true}), values.at("centrality"));
  EXPECT_TRUE(shortest_paths(graph).to(at::kLong).equal(values.at("shortest_path")));
}

}  // namespace
}  // namespace topomask

#include "nn/graph/attention_probe.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/compare.h"
#include "topomask/masks.h"
#include "topomask/nn/graph_layers.h"

namespace topomask {
namespace {

TEST(AttentionProbe, TheRowIsTheWeightsOfTheNode) {
  const Graph graph = Graph::grid({3, 3});
  const at::Tensor x = at::randn({9, 4}, at::kDouble);
  GKATConv layer(4, 5, {.heads = 2});
  layer.to(at::kDouble);
  const MaskPtr mask = neighbours_mask(graph)->to(at::kDouble);
  AttentionProbe probe(4);
  const at::Tensor watched = layer.forward(x, mask);
  const at::Tensor rows = probe.rows();
  ASSERT_EQ(rows.sizes(), at::IntArrayRef({1, 2, 9}));

  const at::Tensor q = at::matmul(x, layer.named_parameters()["wq"]), k = at::matmul(x, layer.named_parameters()["wk"]);
  const at::Tensor dense = mask->dense().expand({2, 9, 9}).to(at::kDouble);
  const at::Tensor weights = at::exp(at::matmul(q, k.mT()) / std::sqrt(5.0)) * dense;
  const at::Tensor expected = (weights / weights.sum(-1, true)).select(1, 4);
  EXPECT_TRUE(testing::close(rows[0], expected.detach(), 1e-10, 1e-12));
}

TEST(AttentionProbe, HeadsThatALayerDoesNotHaveAreNaN) {
  const MaskPtr mask = neighbours_mask(Graph::cycle(6));
  GKATConv wide(3, 4, {.heads = 3}), narrow(3, 4, {.heads = 1});
  AttentionProbe probe(2);
  const at::Tensor x = at::randn({6, 3});
  wide.forward(x, mask);
  narrow.forward(x, mask);
  const at::Tensor rows = probe.rows();
  ASSERT_EQ(rows.sizes(), at::IntArrayRef({2, 3, 6}));
  EXPECT_TRUE(rows[1].slice(0, 1).isnan().all().item<bool>());
  EXPECT_TRUE(testing::close(rows.nanmean(1).sum(-1), at::ones({2}), 1e-5, 1e-5));
}

TEST(AttentionProbe, ChangesNothingOfTheOutput) {
  const Graph graph = Graph::cycle(6);
  const at::Tensor x = at::randn({6, 3}, at::kDouble);
  GATConv layer(3, 4, {.heads = 2});
  layer.to(at::kDouble);
  const GraphEdges edges(graph);
  const at::Tensor plain = layer.forward(x, edges.to(at::kDouble));
  AttentionProbe probe(0);
  EXPECT_TRUE(at::equal(layer.forward(x, edges.to(at::kDouble)).detach(), plain.detach()));
  EXPECT_TRUE(testing::close(probe.rows().sum(-1), at::ones({1, 2}, at::kDouble), 1e-12, 1e-12));
}

}  // namespace
}  // namespace topomask

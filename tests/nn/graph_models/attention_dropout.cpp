#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "nn/graph_models/sets.h"
#include "topomask/masks.h"
#include "topomask/nn/graph_layers.h"

namespace topomask::testing {
namespace {

GraphModelOptions dropping(const char* kind, const char* mask, double probability) {
  GraphModelOptions o;
  o.kind = kind;
  o.mask = mask;
  o.width = 8;
  o.attention_dropout = probability;
  return o;
}

TEST(AttentionDropout, ActsWhileTrainingOnly) {
  const GraphSet set = small_set();
  for (const auto& [kind, mask] : std::vector<std::pair<const char*, const char*>>{{"gat", "gkat"},
                                                                                   {"gkat", "gkat"},
                                                                                   {"gkat", "series"},
                                                                                   {"gkat", "none"},
                                                                                   {"transformer", "grf"},
                                                                                   {"transformer", "sequence"}}) {
    SCOPED_TRACE(std::string(kind) + " " + mask);
    const auto with = double_model(dropping(kind, mask, 0.5)), without = double_model(dropping(kind, mask, 0));
    with->eval();
    without->eval();
    const at::Tensor expected = run(*without, set, all_of(set));
    EXPECT_TRUE(run(*with, set, all_of(set)).equal(expected));
    with->train();
    at::manual_seed(5);
    const at::Tensor first = run(*with, set, all_of(set)), second = run(*with, set, all_of(set));
    EXPECT_FALSE(close(first, expected, 1e-3));
    EXPECT_FALSE(close(first, second, 1e-3));
    at::manual_seed(5);
    EXPECT_TRUE(run(*with, set, all_of(set)).equal(first));  // a resumed run draws the same
    expect_gradients_of_differences(with->parameters(), [&] {
      at::manual_seed(5);
      return run(*with, set, all_of(set));
    });
  }
}

TEST(AttentionDropout, OfGatKeepsTheMeanOfItsWeights) {
  at::manual_seed(1);
  const GraphEdges edges(Graph::erdos_renyi(20, 0.3, 2).to(at::kDouble));
  GATConv layer(4, 3, {.heads = 2, .dropout = 0.6});
  layer.to(at::kDouble);
  const at::Tensor x = at::randn({20, 4}, at::kDouble);
  layer.eval();
  const at::Tensor expected = layer.forward(x, edges).detach();
  layer.train();
  const at::NoGradGuard no_grad;
  at::Tensor sum = at::zeros_like(expected);
  constexpr int64_t kDraws = 4000;
  for (int64_t i = 0; i < kDraws; ++i) sum += layer.forward(x, edges);
  EXPECT_TRUE(close(sum / kDraws, expected, 0.05));
  EXPECT_ERROR(GATConv(4, 3, {.dropout = 1.5}), "GATConv: dropout must be in [0, 1], got 1.5");
}

TEST(AttentionDropout, OfAMaskKeepsRowsNormalised) {
  // Values that are all 1 stay 1 under any weights that sum to 1; a row whose entries are all dropped gives 0.
  const GraphSet set = small_set();
  auto options = dropping("gkat", "neighbours", 0.5);
  options.layers = 1;
  options.node_level = true;
  const auto model = double_model(options);
  model->train();
  const at::NoGradGuard no_grad;
  GraphSample sample = sample_of(set, all_of(set));
  sample.features.fill_(1);
  const GraphStructure structure = take(model->structure(set), set, all_of(set));
  model->eval();
  const at::Tensor whole = model->forward(sample, structure);
  model->train();
  at::manual_seed(3);
  const at::Tensor dropped = model->forward(sample, structure);
  // Each head is as without dropout, or 0: with two heads a node has one of four logits.
  const auto kinds = std::get<0>(at::unique_dim((dropped * 1e9).round(), 0));
  EXPECT_LE(kinds.size(0), 4);
  EXPECT_TRUE(((dropped - whole).abs().sum(1) < 1e-9).any().item<bool>());
}

TEST(AttentionDropout, IsRefusedWhereNothingCanBeDropped) {
  EXPECT_ERROR(double_model(dropping("gcn", "gkat", 0.5)),
               "attention_dropout must be 0 unless kind is gat, gkat or transformer, got 0.5 for gcn");
  EXPECT_ERROR(
      double_model(dropping("transformer", "none", 0.5)),
      "attention_dropout must be 0 for kernel attention with mask none, which has no entries to drop, got 0.5");
  auto options = dropping("transformer", "grf", 0.5);
  options.max_entries = 10;
  const auto model = double_model(options);
  model->train();
  const GraphSet set = small_set();
  EXPECT_ERROR(run(*model, set, all_of(set)),
               "must have at most max_entries = 10 entries where attention_dropout is 0.5");
}

}  // namespace
}  // namespace topomask::testing

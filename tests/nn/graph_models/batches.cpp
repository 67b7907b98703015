#include <ATen/ATen.h>
#include <torch/optim/adam.h>

#include "nn/graph_models/sets.h"
#include "topomask/masks.h"
#include "topomask/nn/graph_mask.h"

// What must hold of a batch of graphs, for every kind of model and every mask.

namespace topomask::testing {
namespace {

TEST(GraphModelBatches, EqualEachGraphAlone) {
  for (const Named& named : models_of_every_kind()) {
    SCOPED_TRACE(named.name);
    const GraphSet set = set_for(named);
    const auto model = double_model(named.options);
    const GraphStructure all = model->structure(set);
    std::vector<int64_t> order = all_of(set);
    std::rotate(order.begin(), order.begin() + 2, order.end());
    const at::Tensor together = model->forward(sample_of(set, order), take(all, set, order));
    for (size_t g = 0; g < order.size(); ++g) {
      const std::vector<int64_t> one{order[g]};
      const at::Tensor alone = model->forward(sample_of(set, one), take(all, set, one));
      EXPECT_TRUE(close(alone[0], together[static_cast<int64_t>(g)], 1e-10)) << "graph " << order[g];
    }
  }
}

TEST(GraphModelBatches, NothingFlowsBetweenGraphs) {
  for (const Named& named : models_of_every_kind()) {
    SCOPED_TRACE(named.name);
    GraphSet set = set_for(named);
    auto options = named.options;
    options.node_level = true;
    const auto model = double_model(options);
    const GraphStructure structure = model->structure(set);
    const at::Tensor before = model->forward(sample_of(set, all_of(set)), structure);
    const int64_t first = set.offsets[1].item<int64_t>(), last = set.offsets[2].item<int64_t>();
    set.features.slice(0, first, last).mul_(-30).add_(100);
    const at::Tensor after = model->forward(sample_of(set, all_of(set)), structure);
    EXPECT_TRUE(close(after.slice(0, 0, first), before.slice(0, 0, first), 1e-12));
    EXPECT_TRUE(close(after.slice(0, last), before.slice(0, last), 1e-12));
    EXPECT_FALSE(close(after.slice(0, first, last), before.slice(0, first, last), 1e-3));
    // The gradient of the logits of one graph in the features of the others is exactly 0.
    GraphSample sample = sample_of(set, all_of(set));
    sample.features.requires_grad_();
    const at::Tensor logits = model->forward(sample, structure).slice(0, first, last);
    const at::Tensor grad = gradients(logits, at::ones_like(logits), {sample.features})[0];
    EXPECT_EQ(grad.slice(0, 0, first).abs().max().item<double>(), 0);
    EXPECT_EQ(grad.slice(0, last).abs().max().item<double>(), 0);
    EXPECT_GT(grad.abs().max().item<double>(), 0);
  }
}

/// Walks are numbered by node, and a sequence by place: those masks change with the order of the nodes.
bool depends_on_order(const GraphModelOptions& o) {
  return (o.kind == "gkat" || o.kind == "transformer") &&
         (o.mask == "grf" || o.mask == "ad_hoc" || o.mask == "gkat" || o.mask == "frequency" || o.mask == "sequence" ||
          o.mask == "spanning_forest");
}

TEST(GraphModelBatches, AreEquivariantUnderPermutationsOfNodes) {
  for (const Named& named : models_of_every_kind()) {
    if (depends_on_order(named.options)) continue;
    SCOPED_TRACE(named.name);
    const GraphSet set = set_for(named);
    auto options = named.options;
    options.node_level = true;
    options.max_degree = options.random_walk_positions = options.kind == "transformer" ? 4 : 0;
    const auto model = double_model(options);
    std::vector<at::Tensor> parts;
    for (int64_t g = 0; g < set.size(); ++g) {
      const int64_t first = set.offsets[g].item<int64_t>(), size = set.offsets[g + 1].item<int64_t>() - first;
      parts.push_back(at::randperm(size) + first);
    }
    const at::Tensor order = at::cat(parts);
    GraphSet moved = set;
    moved.graph = permuted(set.graph, order);
    moved.features = set.features.index_select(0, order);
    moved.parents = at::Tensor();  // found again from the graph
    const at::Tensor expected = run(*model, set, all_of(set)).index_select(0, order);
    EXPECT_TRUE(close(run(*model, moved, all_of(set)), expected, 1e-9));
  }
}

TEST(GraphModelBatches, EvaluationIsDeterministicAndTrainingDropsOut) {
  for (const Named& named : models_of_every_kind()) {
    SCOPED_TRACE(named.name);
    const GraphSet set = set_for(named);
    auto options = named.options;
    options.dropout = 0.5;
    const auto model = double_model(options);
    EXPECT_FALSE(close(run(*model, set, all_of(set)), run(*model, set, all_of(set)), 1e-6));
    model->eval();
    EXPECT_TRUE(at::equal(run(*model, set, all_of(set)), run(*model, set, all_of(set))));
    const auto again = double_model(options);
    again->eval();
    EXPECT_TRUE(at::equal(run(*again, set, all_of(set)), run(*model, set, all_of(set))));
  }
}

TEST(GraphModelBatches, MayBeEmptyOrHoldAGraphTwice) {
  for (const Named& named : models_of_every_kind()) {
    SCOPED_TRACE(named.name);
    const GraphSet set = set_for(named);
    const auto model = double_model(named.options);
    const at::Tensor twice = run(*model, set, {1, 0, 1});
    EXPECT_TRUE(close(twice[0], twice[2], 1e-12));
    EXPECT_EQ(run(*model, set, {}).sizes(), at::IntArrayRef({0, 3}));
  }
}

/// Cycles of label 1 and paths of label 0, of the same sizes: the degrees of the ends tell.
TEST(GraphModelBatches, AreLearntFrom) {
  std::vector<Graph> graphs;
  for (int64_t n = 4; n < 12; ++n) graphs.insert(graphs.end(), {Graph::path(n), Graph::cycle(n)});
  GraphSet set = packed(graphs, 1);
  set.features = set.graph.degrees().to(at::kDouble).unsqueeze(1) - 2;
  const at::Tensor labels = at::arange(set.size()) % 2;
  for (const Named& named : models_of_every_kind()) {
    if (named.trees || (named.options.kind == "transformer" && named.options.attention != "relu")) continue;
    SCOPED_TRACE(named.name);
    auto options = named.options;
    options.features = 1;
    options.classes = 2;
    const auto model = double_model(options);
    const GraphStructure structure = model->structure(set);
    const GraphSample sample = sample_of(set, all_of(set));
    torch::optim::Adam adam(model->parameters(), torch::optim::AdamOptions(0.03));
    double first = 0, last = 0;
    for (int step = 0; step < 40; ++step) {
      adam.zero_grad();
      const at::Tensor loss = at::cross_entropy_loss(model->forward(sample, structure), labels);
      loss.backward();
      adam.step();
      last = loss.item<double>();
      if (step == 0) first = last;
    }
    EXPECT_LT(last, 0.8 * first);
  }
}

TEST(GraphModelBatches, WalksAreDrawnAnewOnlyWhereAsked) {
  GraphModelOptions o;
  o.walkers = 4;
  const GraphSet set = small_set();
  const auto frozen = double_model(o);
  const at::Tensor before = run(*frozen, set, all_of(set));
  EXPECT_FALSE(frozen->start_epoch(1));
  EXPECT_TRUE(at::equal(run(*frozen, set, all_of(set)), before));
  o.resample = "epoch";
  const auto anew = double_model(o);
  EXPECT_TRUE(at::equal(run(*anew, set, all_of(set)), before));
  EXPECT_TRUE(anew->start_epoch(1));
  EXPECT_FALSE(close(run(*anew, set, all_of(set)), before, 1e-6));
  EXPECT_FALSE(anew->start_epoch(1));
  EXPECT_TRUE(anew->start_epoch(0));
  EXPECT_TRUE(at::equal(run(*anew, set, all_of(set)), before));
}

TEST(GraphModelBatches, LayersCanHaveWalksOfTheirOwn) {
  GraphModelOptions o;
  o.kind = "transformer";
  o.width = 8;
  o.mask = "grf";
  const GraphSet set = small_set();
  EXPECT_EQ(double_model(o)->structure(set).walks.size(), 1U);
  o.per_layer_walks = true;
  const GraphStructure structure = double_model(o)->structure(set);
  ASSERT_EQ(structure.walks.size(), 2U);
  EXPECT_FALSE(at::equal(structure.walks.at("grf0").columns(), structure.walks.at("grf1").columns()));
}

TEST(GraphModelBatches, StructuresOfOtherModelsAreRefused) {
  const GraphSet set = small_set();
  EXPECT_ERROR(double_model({})->forward(sample_of(set, all_of(set)), {}),
               "structure must come from this model's structure(), got one without gkat");
  GraphSample sample = sample_of(set, all_of(set));
  sample.features = at::zeros({54, 4}, at::kDouble);
  EXPECT_ERROR(double_model({})->forward(sample, {}), "features must be Float [N, 5], got");
  EXPECT_ERROR(take(GraphStructure{}, set, {5}), "take: graphs must be in [0, 5), got 5");
}

TEST(BlockLinearAttention, IsAttentionInsideEachGraph) {
  // Sizes around the tiles of 32 nodes, and empty graphs.
  const std::vector<int64_t> sizes{31, 0, 32, 33, 1, 0, 100, 64};
  std::vector<at::Tensor> members;
  for (size_t g = 0; g < sizes.size(); ++g) members.push_back(at::full({sizes[g]}, static_cast<int64_t>(g), at::kLong));
  const at::Tensor member = at::cat(members);
  const auto leaf = [&](int64_t columns) {
    return at::rand({2, member.size(0), columns}, at::kDouble).requires_grad_();
  };
  const at::Tensor q = leaf(4), k = leaf(4), v = leaf(3);
  const at::Tensor actual = block_linear_attention(q, k, v, member, 8);
  const at::Tensor weights = at::matmul(q, k.mT()) * (member.unsqueeze(1) == member);
  const at::Tensor expected = at::matmul(weights / weights.sum(-1, true), v);
  EXPECT_TRUE(close(actual, expected, 1e-12));
  const at::Tensor cotangent = at::randn_like(expected);
  const auto grads = gradients(actual, cotangent, {q, k, v}), wanted = gradients(expected, cotangent, {q, k, v});
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(close(grads[i], wanted[i], 1e-11));
  const at::Tensor none = at::zeros({2, 0, 4}, at::kDouble);
  EXPECT_EQ(block_linear_attention(none, none, none, member.slice(0, 0, 0), 0).sizes(), none.sizes());
  EXPECT_ERROR(block_linear_attention(q, v, v, member, 8), "q and k must be [H, N, m]");
}

}  // namespace
}  // namespace topomask::testing

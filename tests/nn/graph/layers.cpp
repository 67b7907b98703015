#include <ATen/ATen.h>
#include <torch/nn/modules/activation.h>

#include "support/compare.h"
#include "support/golden.h"
#include "topomask/masks.h"
#include "topomask/nn/graph_layers.h"
#include "topomask/node_kernel.h"

// The layers against those of PyTorch Geometric, outputs and every gradient (tests/golden/layer_*.pt).

namespace topomask {
namespace {

using testing::close;
using testing::golden;
using Golden = std::map<std::string, at::Tensor>;

GraphEdges edges_of(const Golden& g) {
  const at::Tensor edge = g.at("edge").to(at::kLong);
  return GraphEdges(Graph::from_edges(g.at("x").size(0), edge[1], edge[0], at::ones({edge.size(1)}, at::kDouble),
                                      {.directed = true}));
}

std::string key(std::string name) {
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

/// Fills in the parameters, runs, and compares with what the file has.
template <class Layer>
void expect_golden(const std::string& file, Layer layer) {
  SCOPED_TRACE(file);
  const Golden g = golden(file);
  layer->to(at::kDouble);
  {
    const at::NoGradGuard no_grad;
    for (auto& p : layer->named_parameters()) p.value().copy_(g.at("p_" + key(p.key())));
  }
  const at::Tensor x = g.at("x").clone().requires_grad_();
  const at::Tensor out = layer->forward(x, edges_of(g));
  EXPECT_TRUE(close(out, g.at("out"), 1e-10));
  (out * g.at("g")).sum().backward();
  EXPECT_TRUE(close(x.grad(), g.at("grad_x"), 1e-10));
  for (const auto& p : layer->named_parameters()) {
    // Some vanish but for rounding, as that of the keys' bias under softmax: an absolute bound for those.
    const at::Tensor& expected = g.at("grad_p_" + key(p.key()));
    const at::Tensor grad = p.value().grad();
    const double error = (grad - expected).abs().max().item<double>();
    EXPECT_LE(error, 1e-10 * (1 + expected.abs().max().item<double>())) << p.key();
  }
  EXPECT_TRUE(close(mean_pool(out.detach(), g.at("batch").to(at::kLong), 3), g.at("pooled"), 1e-10));
}

TEST(GraphLayers, AreThoseOfPyTorchGeometric) {
  expect_golden("layer_gcn", std::make_shared<GCNConv>(6, 5));
  expect_golden("layer_sgc", std::make_shared<SGConv>(6, 5, 2));
  expect_golden("layer_cheb", std::make_shared<ChebConv>(6, 5, 3));
  expect_golden("layer_sage", std::make_shared<SAGEConv>(6, 5));
  const torch::nn::Sequential rows(torch::nn::Linear(6, 7), torch::nn::ReLU(), torch::nn::Linear(7, 5));
  expect_golden("layer_gin", std::make_shared<GINConv>(rows, 0.3));
  expect_golden("layer_gat", std::make_shared<GATConv>(6, 4, GATOptions{.heads = 3}));
  expect_golden("layer_gat_mean", std::make_shared<GATConv>(6, 4, GATOptions{.heads = 3, .concat = false}));
  expect_golden("layer_transformer", std::make_shared<TransformerConv>(6, 4, TransformerConvOptions{.heads = 2}));
}

TEST(GraphLayers, GKATIsTheFormula) {
  const Golden g = golden("layer_gkat");
  GKATConv layer(6, 4, {.heads = 2});
  layer.to(at::kDouble);
  {
    const at::NoGradGuard no_grad;
    for (auto& p : layer.named_parameters()) p.value().copy_(g.at(p.key()));
  }
  const at::Tensor x = g.at("x").clone().requires_grad_();
  const at::Tensor out = layer.published_rows(x, g.at("kernel"));
  EXPECT_TRUE(close(out, g.at("out"), 1e-10));
  (out * g.at("g")).sum().backward();
  EXPECT_TRUE(close(x.grad(), g.at("grad_x"), 1e-10));
  for (const auto& p : layer.named_parameters()) {
    EXPECT_TRUE(close(p.value().grad(), g.at("grad_" + p.key()), 1e-10)) << p.key();
  }
}

TEST(GraphLayers, GKATOverAMaskIsThePublishedOneWhereScoresAreModerate) {
  const Golden g = golden("layer_gkat");
  GKATConv layer(6, 4, {.heads = 2});
  layer.to(at::kDouble);
  std::vector<at::Tensor> published, ours;
  for (const bool mask : {false, true}) {
    layer.zero_grad();
    const at::Tensor x = (0.3 * g.at("x")).requires_grad_();
    const at::Tensor out =
        mask ? layer.forward(x, dense_mask(g.at("kernel"))) : layer.published_rows(x, g.at("kernel"));
    (out * g.at("g")).sum().backward();
    std::vector<at::Tensor>& results = mask ? ours : published;
    results = {out.detach(), x.grad().clone()};
    for (const auto& p : layer.named_parameters()) results.push_back(p.value().grad().clone());
  }
  for (size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(close(ours[i], published[i], 1e-7)) << i;
}

TEST(GraphLayers, LetNothingThroughBetweenTheGraphsOfABatch) {
  const std::vector<Graph> graphs{Graph::cycle(7), Graph::star(5), Graph::grid({3, 4})};
  const GraphBatch batch(graphs);
  const GraphEdges edges(batch.graph());
  torch::manual_seed(3);
  GCNConv gcn(4, 3);
  GATConv gat(4, 3, {.heads = 2});
  TransformerConv transformer(4, 3, {.heads = 2});
  ChebConv cheb(4, 3, 3);
  const at::Tensor x = at::randn({batch.graph().num_nodes(), 4});
  at::Tensor other = x.clone();
  other.narrow(0, 7, 5).add_(1);  // the star
  const auto expect_kept = [&](auto& layer) {
    const at::Tensor a = layer.forward(x, edges), b = layer.forward(other, edges);
    EXPECT_TRUE(a.narrow(0, 0, 7).equal(b.narrow(0, 0, 7)));
    EXPECT_TRUE(a.narrow(0, 12, 12).equal(b.narrow(0, 12, 12)));
    EXPECT_FALSE(a.narrow(0, 7, 5).equal(b.narrow(0, 7, 5)));
  };
  expect_kept(gcn);
  expect_kept(gat);
  expect_kept(transformer);
  expect_kept(cheb);
}

TEST(GraphLayers, TakeAGKATMaskOverABatch) {
  const std::vector<Graph> graphs{Graph::cycle(7), Graph::star(5)};
  const GraphBatch batch(graphs);
  const WalkTable walks = sample_walks(batch.graph(), {.walkers = 50, .fixed_hops = 3, .seed = 1});
  torch::manual_seed(4);
  GKATConv layer(4, 3, {.heads = 2});
  const at::Tensor x = at::randn({12, 4});
  const MaskPtr mask = node_kernel_mask(walks);
  EXPECT_TRUE(close(layer.forward(x, mask), layer.published_rows(x, mask->dense()), 1e-4));
  EXPECT_ERROR(layer.forward(x.narrow(0, 0, 5), mask), "GKATConv: x must be [N = 12, C], got Float[5, 4]");
}

TEST(Pools, SumNodesOfEachGraph) {
  const at::Tensor x = at::tensor({1., 5., 2., -4., 3., 0.}, at::kDouble).view({3, 2}).requires_grad_();
  const at::Tensor membership = at::tensor({0, 0, 2}, at::kLong);
  EXPECT_TRUE(sum_pool(x, membership, 3).equal(at::tensor({3., 1., 0., 0., 3., 0.}, at::kDouble).view({3, 2})));
  EXPECT_TRUE(mean_pool(x, membership, 3).equal(at::tensor({1.5, .5, 0., 0., 3., 0.}, at::kDouble).view({3, 2})));
  EXPECT_TRUE(max_pool(x, membership, 3).equal(at::tensor({2., 5., 0., 0., 3., 0.}, at::kDouble).view({3, 2})));
  max_pool(x, membership, 3).sum().backward();
  EXPECT_TRUE(x.grad().equal(at::tensor({0., 1., 1., 0., 1., 1.}, at::kDouble).view({3, 2})));
  AttentionPool pool(2);
  pool.to(at::kDouble);
  const at::Tensor pooled = pool.forward(x.detach(), membership, 3);
  EXPECT_TRUE(close(pooled[2], x.detach()[2], 1e-12));
  // A sum of ones in bfloat16 ends at 256.
  const at::Tensor many = at::cat({at::ones({500, 2}), at::full({500, 2}, 3.0)}).to(at::kBFloat16);
  const at::Tensor one = at::zeros({1000}, at::kLong);
  EXPECT_TRUE(mean_pool(many, one, 1).equal(at::full({1, 2}, 2.0).to(at::kBFloat16)));
  EXPECT_TRUE(sum_pool(many, one, 1).equal(at::full({1, 2}, 2000.0).to(at::kBFloat16)));
  pool.to(at::kBFloat16);
  EXPECT_TRUE(close(pool.forward(at::ones({1000, 2}, at::kBFloat16), one, 1), at::ones({1, 2}), 0.01));
  pool.to(at::kDouble);
  EXPECT_ERROR(sum_pool(x, membership.to(at::kInt), 3), "sum_pool: membership must be int64 [N = 3]");
}

TEST(Pools, AttentionIsADenseSoftmaxOverTheNodesOfEachGraph) {
  torch::manual_seed(5);
  AttentionPool pool(4);
  pool.to(at::kDouble);
  const at::Tensor membership = at::tensor({0, 0, 0, 1, 3, 3, 3, 3, 3}, at::kLong);  // graph 2 is empty
  const at::Tensor x = (30 * at::randn({9, 4}, at::kDouble)).requires_grad_();       // some weights are almost 0
  const at::Tensor belongs = at::arange(4).unsqueeze(1) == membership, slope = at::randn({4, 4}, at::kDouble);
  const auto dense = [&] {
    const at::Tensor gate = at::linear(x, pool.named_parameters()["gate.weight"], pool.named_parameters()["gate.bias"]);
    const at::Tensor weights = at::softmax(at::where(belongs, gate.view({1, 9}), -1e300), 1) * belongs;
    return weights.mm(x);
  };
  std::vector<at::Tensor> inputs = pool.parameters();
  inputs.push_back(x);
  const at::Tensor out = pool.forward(x, membership, 4), expected = dense();
  EXPECT_TRUE(close(out, expected, 1e-12));
  const auto found = testing::gradients(out, slope, inputs), wanted = testing::gradients(expected, slope, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    // That of the gate's bias vanishes but for rounding: an absolute bound.
    const double largest = wanted[i].abs().max().item<double>();
    EXPECT_LE((found[i] - wanted[i]).abs().max().item<double>(), 1e-11 * (1 + largest)) << i;
  }
}

}  // namespace
}  // namespace topomask

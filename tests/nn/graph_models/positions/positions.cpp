#include <ATen/ATen.h>

#include "nn/graph_models/positions/laplacian.h"
#include "nn/graph_models/positions/random_walk.h"
#include "nn/graph_models/sets.h"

namespace topomask::testing {
namespace {

TEST(ReturnProbabilities, AreTheDiagonalsOfPowers) {
  const auto powers = [](const Graph& graph, int64_t steps) {
    const at::Tensor a = (graph.matrix().dense() != 0).to(at::kDouble);
    const at::Tensor p = a / a.sum(1, true).clamp_min(1);
    std::vector<at::Tensor> columns;
    at::Tensor power = p;
    for (int64_t t = 0; t < steps; ++t, power = power.mm(p)) columns.push_back(power.diagonal());
    return at::stack(columns, 1);
  };
  const Graph undirected = small_set().graph;
  const Graph directed =
      Graph::from_edges(6, at::tensor({0, 1, 2, 2, 3, 3, 4}), at::tensor({1, 2, 0, 3, 4, 3, 2}), {}, {.directed = true})
          .to(at::kDouble);
  const Graph looped = Graph::from_edges(4, at::tensor({0, 1, 1}), at::tensor({0, 2, 3})).to(at::kDouble);
  for (const Graph& graph : {undirected, directed, looped}) {
    for (const int64_t steps : {1, 2, 5, 8}) {
      EXPECT_TRUE(close(return_probabilities(graph, steps), powers(graph, steps), 1e-12, 1.0));
    }
  }
  EXPECT_EQ(return_probabilities(Graph::path(0), 3).sizes(), at::IntArrayRef({0, 3}));
  EXPECT_EQ(return_probabilities(Graph::path(5), 3).scalar_type(), at::kFloat);
}

/// ‖L u − (uᵀLu) u‖ for each column, L the normalised Laplacian of one graph, and the eigenvalues.
std::pair<at::Tensor, at::Tensor> residuals(const Graph& graph, const at::Tensor& positions) {
  const at::Tensor u = positions.to(at::kDouble) / std::sqrt(static_cast<double>(graph.num_nodes()));
  const at::Tensor image = u - matmul(graph.normalised().to(at::kDouble).matrix(), u);
  const at::Tensor values = (u * image).sum(0);
  return {(image - u * values).norm(2, 0), values};
}

TEST(LaplacianPositions, AreEigenvectorsDenseAndIterative) {
  for (const auto& graph : {Graph::grid({7, 11}), Graph::grid({23, 37})}) {  // below and above 512 nodes
    const GraphSet set = packed({graph}, 1);
    const at::Tensor positions = laplacian_positions(set, 6);
    const auto [residual, values] = residuals(set.graph, positions);
    EXPECT_LT(residual.max().item<double>(), 1e-5);
    const at::Tensor exact = at::linalg_eigvalsh(at::eye(set.num_nodes(), at::kDouble) -
                                                 set.graph.normalised().to(at::kDouble).matrix().dense());
    EXPECT_TRUE(close(values, exact.slice(0, 1, 7), 1e-8));
    EXPECT_TRUE(close(positions.square().mean(0), at::ones({6}, at::kDouble), 1e-9));
  }
}

TEST(LaplacianPositions, AreOfEachGraphAndPadded) {
  const GraphSet set = packed({Graph::path(3), Graph::path(1), Graph::grid({2, 5})}, 1);
  const at::Tensor positions = laplacian_positions(set, 4);
  EXPECT_EQ(positions.sizes(), at::IntArrayRef({14, 4}));
  EXPECT_EQ(positions.slice(0, 0, 3).slice(1, 2).abs().max().item<double>(), 0);
  EXPECT_EQ(positions[3].abs().max().item<double>(), 0);
  EXPECT_TRUE(close(positions.slice(0, 4), laplacian_positions(packed({Graph::grid({2, 5})}, 1), 4), 1e-12));
  GraphSet directed = set;
  directed.graph = Graph::from_edges(14, at::tensor({0}), at::tensor({1}), {}, {.directed = true});
  EXPECT_ERROR(laplacian_positions(directed, 2), "graphs must be undirected");
}

GraphModelOptions transformer(const char* mask, const char* attention) {
  GraphModelOptions o;
  o.kind = "transformer";
  o.width = 10;  // an odd dimension of a head: one coordinate is not rotated
  o.mask = mask;
  o.attention = attention;
  return o;
}

TEST(Wire, WithoutFrequenciesChangesNothing) {
  const GraphSet set = small_set();
  for (const char* mask : {"none", "grf", "neighbours"}) {
    for (const char* attention : {"relu", "softmax"}) {
      GraphModelOptions o = transformer(mask, attention);
      const at::Tensor expected = run(*double_model(o), set, all_of(set));
      o.wire = 3;
      o.learn_wire = false;
      o.wire_scale = 0;
      EXPECT_TRUE(close(run(*double_model(o), set, all_of(set)), expected, 1e-14));
      o.wire_scale = 1;
      EXPECT_FALSE(close(run(*double_model(o), set, all_of(set)), expected, 1e-6));
    }
  }
}

TEST(Wire, RotatesQueriesAndKeysByAnglesOfPositions) {
  // One block, one head of two dimensions, softmax over a graph: scores are q_iᵀR(θ_j − θ_i)k_j.
  const GraphSet set = packed({Graph::path(5)}, 5);
  GraphModelOptions o = transformer("none", "softmax");
  o.width = 2;
  o.heads = 1;
  o.layers = 1;
  o.wire = 2;
  o.node_level = true;
  const auto model = double_model(o);
  model->eval();
  std::map<std::string, at::Tensor> w;
  for (const auto& item : model->named_parameters()) w[item.key()] = item.value();
  const auto linear = [&](const std::string& name, const at::Tensor& x) {
    return x.matmul(w.at(name + ".weight").t()) + w.at(name + ".bias");
  };
  const auto norm = [](const at::Tensor& x) { return at::layer_norm(x, {2}); };
  const at::Tensor x = linear("embedding", set.features);
  const auto qkv = linear("block0.attention.qkv", norm(x)).chunk(3, 1);
  const at::Tensor theta = laplacian_positions(set, 2).mv(w.at("block0.attention.wire")[0][0]);
  const at::Tensor turn = theta.unsqueeze(0) - theta.unsqueeze(1);  // θ_j − θ_i
  const auto q = qkv[0].unbind(1), k = qkv[1].unbind(1);
  const at::Tensor along = at::outer(q[0], k[0]) + at::outer(q[1], k[1]);
  const at::Tensor across = at::outer(q[1], k[0]) - at::outer(q[0], k[1]);
  const at::Tensor weights = at::softmax((along * turn.cos() + across * turn.sin()) / std::sqrt(2.0), -1);
  at::Tensor y = x + linear("block0.attention.projection", weights.mm(qkv[2]));
  y = y + linear("block0.contract", at::gelu(linear("block0.expand", norm(y))));
  const at::Tensor expected = linear("readout.head", norm(y));
  const at::Tensor actual = run(*model, set, {0});
  EXPECT_TRUE(close(actual, expected, 1e-12));
  const at::Tensor cotangent = at::randn_like(expected), wire = w.at("block0.attention.wire");
  EXPECT_TRUE(close(gradients(actual, cotangent, {wire})[0], gradients(expected, cotangent, {wire})[0], 1e-10));
}

TEST(StructuralInputs, AreAddedAndTheirSignsFlippedInTrainingOnly) {
  const GraphSet set = small_set();
  GraphModelOptions o = transformer("none", "relu");
  const at::Tensor plain = run(*double_model(o), set, all_of(set));
  o.laplacian_positions = 3;
  const auto model = double_model(o);
  const GraphStructure structure = model->structure(set);
  const GraphSample sample = sample_of(set, all_of(set));
  const auto once = [&] { return model->forward(sample, structure); };
  EXPECT_FALSE(close(once(), once(), 1e-6));
  model->eval();
  EXPECT_TRUE(at::equal(once(), once()));
  EXPECT_FALSE(close(once(), plain, 1e-6));
  o.flip_signs = false;
  const auto fixed = double_model(o);
  EXPECT_TRUE(at::equal(fixed->forward(sample, structure), once()));

  GraphModelOptions all = transformer("series", "relu");
  all.max_degree = 3;
  all.random_walk_positions = 5;
  all.laplacian_positions = 2;
  all.wire = 4;
  const auto every = double_model(all);
  const at::Tensor logits = run(*every, set, all_of(set));
  const auto names = every->named_parameters().keys();
  const auto grads = gradients(logits, at::randn_like(logits), every->parameters());
  for (size_t p = 0; p < grads.size(); ++p) {
    EXPECT_TRUE(grads[p].isfinite().all().item<bool>()) << names[p];
    EXPECT_GT(grads[p].abs().max().item<double>(), 0) << names[p];
  }
}

}  // namespace
}  // namespace topomask::testing

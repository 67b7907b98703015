#include <ATen/ATen.h>

#include "nn/graph/rows.h"
#include "topomask/nn/graph_layers.h"

namespace topomask {

namespace {

using torch::nn::Linear;
using torch::nn::LinearOptions;

Linear glorot(int64_t in, int64_t out) {
  Linear layer(LinearOptions(in, out).bias(false));
  glorot_(layer->weight);
  return layer;
}

}  // namespace

GCNConv::GCNConv(int64_t in, int64_t out, bool bias) : lin_(glorot(in, out)) {
  register_module("lin", lin_);
  if (bias) bias_ = register_parameter("bias", at::zeros({out}));
}

at::Tensor GCNConv::forward(const at::Tensor& x, const GraphEdges& edges) {
  check_rows("GCNConv", x, edges.num_nodes());
  const at::Tensor y = matmul(edges.normalised_with_loops(), lin_(x));
  return bias_.defined() ? y + bias_ : y;
}

SGConv::SGConv(int64_t in, int64_t out, int64_t hops, bool bias)
    : lin_(LinearOptions(in, out).bias(bias)), hops_(hops) {
  TORCH_CHECK(hops >= 0, "SGConv: hops must be >= 0, got ", hops);
  register_module("lin", lin_);
}

at::Tensor SGConv::forward(const at::Tensor& x, const GraphEdges& edges) {
  check_rows("SGConv", x, edges.num_nodes());
  at::Tensor y = x;
  for (int64_t hop = 0; hop < hops_; ++hop) y = matmul(edges.normalised_with_loops(), y);
  return lin_(y);
}

ChebConv::ChebConv(int64_t in, int64_t out, int64_t order, bool bias) {
  TORCH_CHECK(order >= 1, "ChebConv: order must be >= 1, got ", order);
  for (int64_t k = 0; k < order; ++k) {
    lins_.push_back(register_module("lins_" + std::to_string(k), glorot(in, out)));
  }
  if (bias) bias_ = register_parameter("bias", at::zeros({out}));
}

at::Tensor ChebConv::forward(const at::Tensor& x, const GraphEdges& edges) {
  check_rows("ChebConv", x, edges.num_nodes());
  const auto scaled_laplacian = [&](const at::Tensor& y) { return matmul(edges.normalised(), y).neg(); };
  at::Tensor before = x, now = x, out = lins_[0](x);
  for (size_t k = 1; k < lins_.size(); ++k) {
    at::Tensor next = k == 1 ? scaled_laplacian(x) : 2 * scaled_laplacian(now) - before;
    before = std::exchange(now, std::move(next));
    out = out + lins_[k](now);
  }
  return bias_.defined() ? out + bias_ : out;
}

SAGEConv::SAGEConv(int64_t in, int64_t out, bool bias)
    : lin_l_(LinearOptions(in, out).bias(bias)), lin_r_(LinearOptions(in, out).bias(false)) {
  register_module("lin_l", lin_l_);
  register_module("lin_r", lin_r_);
}

at::Tensor SAGEConv::forward(const at::Tensor& x, const GraphEdges& edges) {
  check_rows("SAGEConv", x, edges.num_nodes());
  return lin_l_(matmul(edges.adjacency(), x) / edges.counts()) + lin_r_(x);
}

GINConv::GINConv(torch::nn::Sequential nn, double eps, bool train_eps) : nn_(std::move(nn)), constant_eps_(eps) {
  register_module("nn", nn_);
  if (train_eps) eps_ = register_parameter("eps", at::full({}, eps));
}

at::Tensor GINConv::forward(const at::Tensor& x, const GraphEdges& edges) {
  check_rows("GINConv", x, edges.num_nodes());
  const at::Tensor own = eps_.defined() ? (1 + eps_) * x : (1 + constant_eps_) * x;
  return nn_->forward(own + matmul(edges.adjacency(), x));
}

}  // namespace topomask

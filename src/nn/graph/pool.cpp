#include <ATen/ATen.h>

#include <limits>

#include "core/checks.h"
#include "topomask/nn/graph_layers.h"

namespace topomask {
namespace {

void check_membership(const char* op, const at::Tensor& x, const at::Tensor& membership, int64_t graphs) {
  TORCH_CHECK(x.defined() && x.dim() == 2, op, ": x must be [N, C], got ", describe(x));
  TORCH_CHECK(membership.defined() && membership.scalar_type() == at::kLong && membership.dim() == 1 &&
                  membership.size(0) == x.size(0) && membership.device() == x.device(),
              op, ": membership must be int64 [N = ", x.size(0), "] on ", x.device(), ", got ", describe(membership));
  TORCH_CHECK(graphs >= 0, op, ": graphs must be >= 0, got ", graphs);
}

}  // namespace

at::Tensor sum_pool(const at::Tensor& x, const at::Tensor& membership, int64_t graphs) {
  check_membership("sum_pool", x, membership, graphs);
  return at::zeros({graphs, x.size(1)}, x.options()).index_add(0, membership, x);
}

at::Tensor mean_pool(const at::Tensor& x, const at::Tensor& membership, int64_t graphs) {
  check_membership("mean_pool", x, membership, graphs);
  const at::Tensor ones = at::ones({x.size(0)}, x.options().requires_grad(false));
  const at::Tensor sizes = at::zeros({graphs}, ones.options()).index_add(0, membership, ones).clamp_min(1);
  return sum_pool(x, membership, graphs) / sizes.unsqueeze(1);
}

at::Tensor max_pool(const at::Tensor& x, const at::Tensor& membership, int64_t graphs) {
  check_membership("max_pool", x, membership, graphs);
  const double lowest = -std::numeric_limits<double>::infinity();
  const at::Tensor largest = at::full({graphs, x.size(1)}, lowest, x.options().requires_grad(false))
                                 .scatter_reduce(0, membership.unsqueeze(1).expand_as(x), x, "amax");
  const at::Tensor ones = at::ones({x.size(0)}, membership.options());
  const at::Tensor empty = at::zeros({graphs}, membership.options()).index_add(0, membership, ones) == 0;
  return largest.masked_fill(empty.unsqueeze(1), 0);
}

AttentionPool::AttentionPool(int64_t width) : gate_(width, 1) {
  register_module("gate", gate_);
}

at::Tensor AttentionPool::forward(const at::Tensor& x, const at::Tensor& membership, int64_t graphs) {
  check_membership("AttentionPool", x, membership, graphs);
  const at::Tensor gate = gate_(x), largest = max_pool(gate.detach(), membership, graphs);
  const at::Tensor weights = at::exp(gate - largest.index_select(0, membership));
  const at::Tensor sums = sum_pool(weights, membership, graphs);
  return sum_pool(weights / sums.index_select(0, membership) * x, membership, graphs);
}

}  // namespace topomask

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

/// In the type that sums are kept in: in bfloat16 a count of ones ends at 256.
at::Tensor wide(const at::Tensor& x) {
  return x.to(accumulation_type(x.scalar_type()));
}

at::Tensor sums(const at::Tensor& x, const at::Tensor& membership, int64_t graphs) {
  return at::zeros({graphs, x.size(1)}, x.options().requires_grad(false)).index_add(0, membership, x);
}

}  // namespace

at::Tensor sum_pool(const at::Tensor& x, const at::Tensor& membership, int64_t graphs) {
  check_membership("sum_pool", x, membership, graphs);
  return sums(wide(x), membership, graphs).to(x.scalar_type());
}

at::Tensor mean_pool(const at::Tensor& x, const at::Tensor& membership, int64_t graphs) {
  check_membership("mean_pool", x, membership, graphs);
  const at::Tensor all = wide(x), ones = at::ones({x.size(0), 1}, all.options().requires_grad(false));
  return (sums(all, membership, graphs) / sums(ones, membership, graphs).clamp_min(1)).to(x.scalar_type());
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
  const at::Tensor gate = wide(gate_(x)), largest = max_pool(gate.detach(), membership, graphs);
  const at::Tensor weights = at::exp(gate - largest.index_select(0, membership));
  const at::Tensor totals = sums(weights, membership, graphs);
  return sums(weights / totals.index_select(0, membership) * wide(x), membership, graphs).to(x.scalar_type());
}

}  // namespace topomask

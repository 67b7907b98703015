#include "topomask/forest.h"

#include <ATen/ATen.h>

#include <limits>

#include "core/checks.h"
#include "graph/csr.h"
#include "masks/forest/structure/forest_structure.h"

namespace topomask {
namespace {

at::Tensor checked_parent(const at::Tensor& parent) {
  TORCH_CHECK(parent.defined(), "Forest: parent must be int64 or int32 [N] on cpu, got undefined");
  const int64_t nodes = parent.numel();
  check_node_count("Forest", "the length of parent", nodes);
  const at::Tensor checked = checked_node_ids("Forest", "parent", parent, -1, nodes);
  return checked.is_same(parent) ? checked.clone() : checked;
}

/// The weights of the edges; a copy, so that what is derived from them stays true, unless they are being learned.
at::Tensor checked_weights(const at::Tensor& weights, const at::Tensor& parent) {
  const int64_t nodes = parent.size(0);
  if (!weights.defined()) return at::where(parent < 0, at::zeros({}, at::kFloat), at::ones({}, at::kFloat));
  TORCH_CHECK(
      is_real(weights.scalar_type()) && weights.dim() == 1 && weights.size(0) == nodes && weights.device().is_cpu(),
      "Forest: weights must be float32 or float64 [N = ", nodes, "] on cpu, got ", describe(weights));
  const at::Tensor bad = weights.detach().isfinite().logical_or_(parent < 0).logical_not_().nonzero();
  TORCH_CHECK(bad.numel() == 0, "Forest: weights must be finite, got ",
              weights[bad.flatten()[0].item<int64_t>()].item<double>(), " at node ", bad.flatten()[0].item<int64_t>());
  return weights.requires_grad() ? weights : weights.clone(at::MemoryFormat::Contiguous);
}

}  // namespace

Forest::Forest(at::Tensor parent, at::Tensor weights, std::shared_ptr<const ForestStructure> structure)
    : parent_(std::move(parent)), weights_(std::move(weights)), structure_(std::move(structure)) {}

Forest::Forest(const at::Tensor& parent, const at::Tensor& weights) : parent_(checked_parent(parent)) {
  auto rooted = std::make_shared<RootedOrder>(make_rooted_order(parent_.const_data_ptr<int32_t>(), num_nodes()));
  weights_ = checked_weights(weights, parent_);
  structure_ = std::make_shared<ForestStructure>(std::move(rooted), weights_);
}

Forest Forest::with_weights(const at::Tensor& weights) const {
  at::Tensor checked = checked_weights(weights, parent_);
  auto structure = std::make_shared<ForestStructure>(structure_->rooted(), checked);
  return {parent_, std::move(checked), std::move(structure)};
}

Forest Forest::to(at::ScalarType dtype) const {
  TORCH_CHECK(is_real(dtype), "Forest::to: dtype must be Float or Double, got ", dtype);
  return dtype == weights_.scalar_type() ? *this : with_weights(weights_.to(dtype));
}

int64_t Forest::num_trees() const {
  return (parent_ < 0).sum().item<int64_t>();
}

at::Tensor Forest::distances(int64_t node) const {
  TORCH_CHECK(node >= 0 && node < num_nodes(), "Forest::distances: node must be in [0, ", num_nodes(), "), got ", node);
  const RootedOrder& rooted = *structure_->rooted();
  const at::Tensor length = weights_.detach().to(at::kDouble).contiguous();
  const double* w = length.const_data_ptr<double>();
  const int32_t* parent = parent_.const_data_ptr<int32_t>();
  at::Tensor result = at::full({num_nodes()}, std::numeric_limits<double>::infinity(), at::kDouble);
  double* distance = result.mutable_data_ptr<double>();
  std::vector<bool> above(num_nodes(), false);
  distance[node] = 0;
  above[node] = true;
  for (auto v = static_cast<int32_t>(node); parent[v] >= 0; v = parent[v]) {
    distance[parent[v]] = distance[v] + w[v];
    above[parent[v]] = true;
  }
  for (const int32_t v : rooted.preorder) {
    if (!above[v] && parent[v] >= 0) distance[v] = distance[parent[v]] + w[v];
  }
  return result;
}

double Forest::diameter() const {
  const RootedOrder& rooted = *structure_->rooted();
  const at::Tensor length = weights_.detach().to(at::kDouble).contiguous();
  const double* w = length.const_data_ptr<double>();
  std::vector<double> height(rooted.size(), 0.0);
  double largest = 0;
  for (int64_t p = rooted.size(); p-- > 0;) {
    const int32_t up = rooted.preorder_parent[p];
    if (up < 0) continue;
    const double reach = height[p] + w[rooted.preorder[p]];
    largest = std::max(largest, height[up] + reach);
    height[up] = std::max(height[up], reach);
  }
  return largest;
}

}  // namespace topomask

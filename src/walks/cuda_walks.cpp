#include "walks/cuda_walks.h"

#include <ATen/ATen.h>

#include <cstring>

#include "ops/walk_table/op.h"
#include "walks/visit_products.h"

namespace topomask {
namespace {

using at::Tensor;

Tensor as_tensor(const std::vector<uint32_t>& words) {
  const Tensor result = at::empty({static_cast<int64_t>(words.size())}, at::kInt);
  std::memcpy(result.mutable_data_ptr<int32_t>(), words.data(), words.size() * sizeof(uint32_t));
  return result;
}

}  // namespace

CudaWalks::CudaWalks(const char* op, const Graph& graph, const WalkOptions& options)
    : nodes_(graph.num_nodes()), options_(options), plan_(op, options) {
  const WalkSteps steps(op, options.proposal == Proposal::uniform ? graph : graph.to(at::kCPU), options);
  const auto there = [&](const Tensor& tensor) { return tensor.to(graph.device()); };
  offsets_ = there(steps.offsets);
  columns_ = there(steps.columns);
  factors_ = there(steps.factors);
  if (steps.threshold.defined()) {
    threshold_ = there(steps.threshold);
    alias_ = there(steps.alias);
  }
  halt_below_ = there(as_tensor(plan_.halt_below));
  scale_ = there(at::tensor(plan_.survival, at::kDouble).reciprocal().to(factors_.scalar_type()));
}

WalkTable::Arrays CudaWalks::table() const {
  const std::vector<Tensor> arrays = ops::walk_table::table(
      {offsets_, columns_}, factors_, threshold_, alias_, halt_below_, scale_, options_.walkers, options_.first_walker,
      static_cast<int64_t>(options_.seed), plan_.antithetic, plan_.repelling ? plan_.group : 0);
  TORCH_INTERNAL_ASSERT(arrays.size() == 8);
  WalkTable::Arrays table{.offsets = arrays[0],
                          .columns = arrays[1],
                          .hops = arrays[2],
                          .loads = arrays[3],
                          .counts = arrays[4],
                          .pattern = std::make_shared<SparsePattern>(nodes_, nodes_, arrays[5], arrays[6]),
                          .feature_offsets = arrays[7]};
  if (options_.group_products) add_products(table);
  return table;
}

void CudaWalks::add_products(WalkTable::Arrays& table) const {
  constexpr double kVisitsAtOnce = 1 << 22;
  double alive = static_cast<double>(options_.walkers), expected = alive;
  for (const double survival : plan_.survival) expected += alive *= survival;
  const auto rows_at_once = static_cast<int64_t>(std::max(1.0, kVisitsAtOnce / expected));
  std::vector<Tensor> offsets{at::zeros({1}, table.offsets.options())}, hops, values;
  int64_t entries = 0;
  for (int64_t first = 0; first < std::max<int64_t>(1, nodes_); first += rows_at_once) {
    const int64_t rows = std::min(rows_at_once, nodes_ - first);
    const Visits made = visits(first, rows);
    const VisitProducts part = visit_products(made.columns, made.hops, made.loads, rows, options_.walkers, plan_.group);
    offsets.push_back(part.offsets.slice(0, 1) + entries);
    hops.push_back(part.hops);
    values.push_back(part.values);
    entries += part.values.size(0);
  }
  table.product_offsets = at::cat(offsets);
  table.product_hops = at::cat(hops);
  table.product_values = at::cat(values);
}

CudaWalks::Visits CudaWalks::visits(int64_t first, int64_t count, int64_t skipped, int64_t walkers) const {
  const std::vector<Tensor> arrays = ops::walk_table::visits(
      {offsets_, columns_}, factors_, threshold_, alias_, halt_below_, scale_, walkers, options_.first_walker + skipped,
      static_cast<int64_t>(options_.seed), plan_.antithetic, plan_.repelling ? plan_.group : 0, first, count);
  TORCH_INTERNAL_ASSERT(arrays.size() == 4);
  return {arrays[0], arrays[1], arrays[2], arrays[3]};
}

}  // namespace topomask

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "core/move.h"
#include "core/parallel.h"
#include "core/recycled.h"
#include "topomask/walks.h"
#include "walks/kept_loads.h"
#include "walks/plan.h"

namespace topomask {
namespace {

constexpr int64_t kTableRows = 4096;

/// The entries of Φ̂, runs of one column in the rows of a table: their pattern and where their triples begin.
void find_entries(WalkTable::Arrays& arrays, int64_t nodes) {
  const int64_t rows = arrays.offsets.size(0) - 1;
  const at::Tensor offsets = recycled_empty({rows + 1}, at::kLong);
  const int64_t* from = arrays.offsets.const_data_ptr<int64_t>();
  const int32_t* column = arrays.columns.const_data_ptr<int32_t>();
  int64_t* offset = offsets.mutable_data_ptr<int64_t>();
  const auto begins = [&](int64_t row, int64_t q) { return q == from[row] || column[q] != column[q - 1]; };
  offset[0] = 0;
  at::parallel_for(0, rows, kTableRows, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      offset[i + 1] = 0;
      for (int64_t q = from[i]; q < from[i + 1]; ++q) offset[i + 1] += begins(i, q);
    }
  });
  for (int64_t i = 0; i < rows; ++i) offset[i + 1] += offset[i];
  const at::Tensor columns = recycled_empty({offset[rows]}, at::kInt);
  arrays.feature_offsets = recycled_empty({offset[rows] + 1}, at::kLong);
  int32_t* entry_column = columns.mutable_data_ptr<int32_t>();
  int64_t* first = arrays.feature_offsets.mutable_data_ptr<int64_t>();
  first[offset[rows]] = from[rows];
  at::parallel_for(0, rows, kTableRows, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t entry = offset[i];
      for (int64_t q = from[i]; q < from[i + 1]; ++q) {
        if (!begins(i, q)) continue;
        entry_column[entry] = column[q];
        first[entry++] = q;
      }
    }
  });
  arrays.pattern = std::make_shared<const SparsePattern>(rows, nodes, offsets, columns);
}

}  // namespace

WalkTable::WalkTable(Arrays arrays, WalkOptions options, int64_t max_hops, bool sampled)
    : arrays_(std::move(arrays)),
      options_(std::move(options)),
      max_hops_(max_hops),
      sampled_(sampled),
      kept_(std::make_shared<KeptLoads>()) {
  if (!arrays_.pattern) find_entries(arrays_, num_nodes());
}

at::Tensor WalkTable::kept_loads() const {
  return loads().is_cpu() || loads().requires_grad() ? loads() : kept_->current(loads()).loads;
}

WalkTable WalkTable::to(const at::TensorOptions& target) const {
  if (is_at(loads(), target)) return *this;
  const Arrays& a = arrays_;
  return {{.offsets = moved(a.offsets, target),
           .columns = moved(a.columns, target),
           .hops = moved(a.hops, target),
           .loads = kept_loads().to(target),
           .counts = moved(a.counts, target),
           .product_offsets = moved(a.product_offsets, target),
           .product_hops = moved(a.product_hops, target),
           .product_values = has_group_products() ? a.product_values.to(target) : at::Tensor(),
           .pattern = moved(a.pattern, target),
           .feature_offsets = moved(a.feature_offsets, target)},
          options_,
          max_hops_,
          sampled_};
}

int64_t WalkTable::groups() const {
  const int64_t size = WalkPlan("WalkTable", options_).group;
  return (walkers() + size - 1) / size;
}

int64_t WalkTable::independent_pairs() const {
  const int64_t size = WalkPlan("WalkTable", options_).group, full = walkers() / size, rest = walkers() % size;
  return walkers() * walkers() - full * size * size - rest * rest;
}

}  // namespace topomask

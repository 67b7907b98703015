#include "masks/grf/walk_function.h"

#include <ATen/ATen.h>

#include "core/tensor_cache.h"
#include "walks/kept_loads.h"

namespace topomask {

namespace {

WalkTable with_loads(const WalkTable& walks, at::Tensor loads) {
  return {{.offsets = walks.offsets(),
           .columns = walks.columns(),
           .hops = walks.hops(),
           .loads = std::move(loads),
           .counts = walks.counts(),
           .product_offsets = walks.product_offsets(),
           .product_hops = walks.product_hops(),
           .product_values = walks.product_values(),
           .pattern = walks.pattern(),
           .feature_offsets = walks.feature_offsets()},
          walks.options(),
          walks.max_hops(),
          walks.sampled()};
}

}  // namespace

std::vector<at::Tensor> walk_parameters(std::vector<at::Tensor> functions, const std::vector<WalkTable>& tables) {
  for (const WalkTable& table : tables) {
    if (table.loads().requires_grad()) functions.push_back(table.loads());
  }
  return functions;
}

std::vector<WalkTable> tables_of(const std::vector<WalkTable>& tables, const std::vector<at::Tensor>& parameters,
                                 size_t functions) {
  std::vector<WalkTable> result = tables;
  for (WalkTable& table : result) {
    if (table.loads().requires_grad()) table = with_loads(table, parameters[functions++]);
  }
  return result;
}

std::vector<at::Tensor> with_seen_loads(std::vector<at::Tensor> parameters, const std::vector<WalkTable>& tables) {
  if (!TensorCache::comparable(parameters)) return parameters;
  std::vector<int64_t> numbers;
  for (const WalkTable& table : tables) {
    if (!table.loads().requires_grad()) numbers.push_back(KeptLoads::of(table)->current(table.loads()).number);
  }
  parameters.push_back(at::tensor(numbers, at::kLong));
  return parameters;
}

bool share_walkers(const WalkTable& a, const WalkTable& b) {
  const WalkOptions &x = a.options(), &y = b.options();
  return a.sampled() && b.sampled() && x.seed == y.seed && x.first_walker < y.first_walker + b.walkers() &&
         y.first_walker < x.first_walker + a.walkers();
}

}  // namespace topomask

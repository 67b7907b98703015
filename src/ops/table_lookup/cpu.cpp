#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include "core/ordered_sums.h"
#include "core/recycled.h"
#include "ops/table_lookup/cpu_kernel.h"
#include "ops/table_lookup/op.h"

namespace topomask::ops::table_lookup {

namespace {

using at::Tensor;

constexpr int64_t kGrain = 32768;
constexpr int64_t kMostBlocks = 64;  // of partial sums: memory stays small in comparison with long tables

Tensor table_lookup_cpu(const Tensor& table, const Tensor& index) {
  check_lookup(table, index);
  const Tensor rows = table.contiguous(), places = index.contiguous();
  const Tensor out = recycled_empty(with_heads(table.size(0), index.sizes()), table.options());
  const int64_t count = index.numel(), size = table.size(1);
  AT_DISPATCH_FLOATING_TYPES(table.scalar_type(), "table_lookup", [&] {
    const auto* place = places.const_data_ptr<int16_t>();
    const auto* row = rows.const_data_ptr<scalar_t>();
    auto* to = out.mutable_data_ptr<scalar_t>();
    for (int64_t h = 0; h < table.size(0); ++h) {
      at::parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
        table_lookup_range(place, row + h * size, size, to + h * count, begin, end);
      });
    }
  });
  return out;
}

Tensor table_sums_cpu(const Tensor& grad, const Tensor& index, int64_t size) {
  check_sums(grad, index, size);
  const Tensor values = grad.contiguous(), places = index.contiguous();
  const int64_t heads = grad.size(0), count = index.numel();
  // Blocks by size alone, so that sums do not depend on the number of threads.
  const int64_t block = std::max(kGrain, (count + kMostBlocks - 1) / kMostBlocks), blocks = (count + block - 1) / block;
  const Tensor result = at::empty({heads, size}, grad.options());
  for (int64_t h = 0; h < heads; ++h) {
    const Tensor partial = at::zeros({blocks, kTableLanes, size}, at::kDouble);
    AT_DISPATCH_FLOATING_TYPES(grad.scalar_type(), "table_sums", [&] {
      const auto* place = places.const_data_ptr<int16_t>();
      const auto* from = values.const_data_ptr<scalar_t>() + h * count;
      auto* sums = partial.mutable_data_ptr<double>();
      at::parallel_for(0, blocks, 1, [&](int64_t first, int64_t last) {
        for (int64_t b = first; b < last; ++b) {
          table_sums_range(place, from, size, sums + b * kTableLanes * size, b * block,
                           std::min(count, (b + 1) * block));
        }
      });
    });
    result[h].copy_(first_sums(partial.flatten(0, 1)));
  }
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CPU, m) {
  m.impl("table_lookup", table_lookup_cpu);
  m.impl("table_sums", table_sums_cpu);
}

}  // namespace topomask::ops::table_lookup

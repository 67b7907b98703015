#include <ATen/ATen.h>
#include <torch/library.h>

#include "ops/table_lookup/op.h"

namespace topomask::ops::table_lookup {

namespace {

using at::Tensor;

/// Computed by tensor operations: an index past the end is read as the last one, as in the kernels.
Tensor places_of(const Tensor& index, int64_t size) {
  return index.reshape(-1).to(at::kLong).bitwise_and_(0xFFFF).clamp_max_(size - 1);
}

Tensor table_lookup_cuda(const Tensor& table, const Tensor& index) {
  check_lookup(table, index);
  return table.index_select(1, places_of(index, table.size(1))).view(with_heads(table.size(0), index.sizes()));
}

Tensor table_sums_cuda(const Tensor& grad, const Tensor& index, int64_t size) {
  check_sums(grad, index, size);
  const Tensor sums = at::zeros({grad.size(0), size}, grad.options().dtype(at::kDouble));
  return sums.index_add(1, places_of(index, size), grad.reshape({grad.size(0), -1}).to(at::kDouble))
      .to(grad.scalar_type());
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CUDA, m) {
  m.impl("table_lookup", table_lookup_cuda);
  m.impl("table_sums", table_sums_cuda);
}

}  // namespace topomask::ops::table_lookup

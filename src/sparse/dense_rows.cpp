#include "sparse/dense_rows.h"

#include <ATen/ATen.h>

namespace topomask {

at::Tensor places_in_rows(const SparsePattern& pattern, int64_t first, int64_t count, int64_t first_entry,
                          int64_t entries) {
  const at::Tensor& offsets = pattern.offsets();
  const at::Tensor starts = at::arange(count, offsets.options()) * pattern.cols();
  return starts.repeat_interleave(offsets.narrow(0, first, count + 1).diff(), 0, entries) +
         pattern.columns().narrow(0, first_entry, entries);
}

at::Tensor dense_rows(const SparseMatrix& matrix, int64_t first, int64_t count) {
  const SparsePattern& pattern = *matrix.pattern;
  const auto offset = [&](int64_t row) { return pattern.offsets()[row].item<int64_t>(); };
  const int64_t first_entry = offset(first), entries = offset(first + count) - first_entry;
  const at::Tensor values = matrix.values_by_head();
  const at::Tensor rows = at::zeros({values.size(0), count * pattern.cols()}, values.options());
  rows.index_copy_(1, places_in_rows(pattern, first, count, first_entry, entries),
                   values.narrow(1, first_entry, entries));
  return rows.view({values.size(0), count, pattern.cols()});
}

}  // namespace topomask

#include "walks/check_arrays.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

namespace topomask {
namespace {

constexpr int64_t kRows = 4096;

void check_offsets(const char* op, const char* name, const at::Tensor& offsets, int64_t entries) {
  const int64_t* offset = offsets.const_data_ptr<int64_t>();
  const int64_t rows = offsets.size(0) - 1;
  TORCH_CHECK(offset[0] == 0 && offset[rows] == entries, op, ": ", name, " must run from 0 to ", entries, ", got ",
              offset[0], " to ", offset[rows]);
  for (int64_t i = 0; i < rows; ++i) {
    TORCH_CHECK(offset[i] <= offset[i + 1], op, ": ", name, " must not decrease, got ", offset[i], " then ",
                offset[i + 1], " at row ", i);
  }
}

}  // namespace

void check_table_arrays(const char* op, const WalkTable::Arrays& arrays, int64_t nodes, int64_t max_hops) {
  check_offsets(op, "offsets", arrays.offsets, arrays.columns.size(0));
  const int64_t* offset = arrays.offsets.const_data_ptr<int64_t>();
  const int32_t *column = arrays.columns.const_data_ptr<int32_t>(), *count = arrays.counts.const_data_ptr<int32_t>();
  const int16_t* hop = arrays.hops.const_data_ptr<int16_t>();
  at::parallel_for(0, nodes, kRows, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t q = offset[i]; q < offset[i + 1]; ++q) {
        TORCH_CHECK(column[q] >= 0 && column[q] < nodes && hop[q] >= 0 && hop[q] <= max_hops && count[q] >= 0, op,
                    ": a triple must have a column below ", nodes, ", a hop up to ", max_hops, " and a count, got ",
                    column[q], ", ", hop[q], " and ", count[q], " in row ", i);
        TORCH_CHECK(q == offset[i] || column[q - 1] < column[q] || (column[q - 1] == column[q] && hop[q - 1] < hop[q]),
                    op, ": triples must ascend by column and hop, got another order in row ", i);
      }
    }
  });
  if (!arrays.product_values.defined()) return;
  check_offsets(op, "product_offsets", arrays.product_offsets, arrays.product_values.size(0));
  const int16_t* hops = arrays.product_hops.const_data_ptr<int16_t>();
  for (int64_t p = 0; p < arrays.product_values.size(0); ++p) {
    TORCH_CHECK(hops[2 * p] >= 0 && hops[2 * p] <= hops[2 * p + 1] && hops[2 * p + 1] <= max_hops, op,
                ": product_hops must be t <= u up to ", max_hops, ", got ", hops[2 * p], " and ", hops[2 * p + 1]);
  }
}

}  // namespace topomask

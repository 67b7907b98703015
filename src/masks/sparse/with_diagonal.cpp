#include "masks/sparse/with_diagonal.h"

#include <ATen/ATen.h>

namespace topomask {

WithDiagonal with_diagonal(const PatternPtr& given) {
  const PatternPtr a = given->to(at::kCPU);
  const int64_t nodes = a->rows();
  const int64_t* offset = a->offsets().const_data_ptr<int64_t>();
  const int32_t* column = a->columns().const_data_ptr<int32_t>();
  const at::Tensor offsets = at::empty({nodes + 1}, at::kLong), columns = at::empty({a->entries() + nodes}, at::kInt);
  const at::Tensor edges = at::empty({a->entries()}, at::kLong), diagonal = at::empty({nodes}, at::kLong);
  int64_t* out_offset = offsets.mutable_data_ptr<int64_t>();
  int32_t* out = columns.mutable_data_ptr<int32_t>();
  int64_t* edge = edges.mutable_data_ptr<int64_t>();
  int64_t* own = diagonal.mutable_data_ptr<int64_t>();
  int64_t written = 0;
  for (int64_t i = 0; i < nodes; ++i) {
    out_offset[i] = written;
    own[i] = -1;
    const auto write_diagonal = [&] {
      own[i] = written;
      out[written++] = static_cast<int32_t>(i);
    };
    for (int64_t e = offset[i]; e < offset[i + 1]; ++e) {
      if (column[e] >= i && own[i] < 0) write_diagonal();
      if (column[e] == i) {
        edge[e] = own[i];
      } else {
        edge[e] = written;
        out[written++] = column[e];
      }
    }
    if (own[i] < 0) write_diagonal();
  }
  out_offset[nodes] = written;
  const auto made = std::make_shared<SparsePattern>(nodes, nodes, offsets, columns.narrow(0, 0, written).clone());
  const at::Device device = given->device();
  return {made->to(device), edges.to(device), diagonal.to(device)};
}

}  // namespace topomask

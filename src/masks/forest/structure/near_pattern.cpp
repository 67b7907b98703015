#include "masks/forest/structure/near_pattern.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

namespace topomask {

NearPattern::NearPattern(const Decomposition& decomposition) {
  const auto nodes = static_cast<int64_t>(decomposition.order.size());
  const auto entries = static_cast<int64_t>(decomposition.near.size());
  const at::Tensor offsets = at::zeros({nodes + 1}, at::kLong), columns = at::empty({entries}, at::kInt);
  index = at::empty({entries}, at::kLong);
  int64_t* offset = offsets.mutable_data_ptr<int64_t>();
  int32_t* column = columns.mutable_data_ptr<int32_t>();
  int64_t* entry = index.mutable_data_ptr<int64_t>();
  for (const Block& block : decomposition.blocks) {
    for (int32_t i = 0; i < block.size; ++i) offset[decomposition.order[block.first + i] + 1] = block.size;
  }
  std::partial_sum(offset, offset + nodes + 1, offset);
  std::vector<int32_t> ascending;
  for (const Block& block : decomposition.blocks) {
    const int32_t* node = decomposition.order.data() + block.first;
    ascending.resize(block.size);
    std::iota(ascending.begin(), ascending.end(), 0);
    std::sort(ascending.begin(), ascending.end(), [&](int32_t a, int32_t b) { return node[a] < node[b]; });
    for (int32_t i = 0; i < block.size; ++i) {
      for (int32_t j = 0; j < block.size; ++j) {
        column[offset[node[i]] + j] = node[ascending[j]];
        entry[offset[node[i]] + j] = block.entry + int64_t{i} * block.size + ascending[j];
      }
    }
  }
  pattern = std::make_shared<const SparsePattern>(nodes, nodes, offsets, columns);
}

}  // namespace topomask

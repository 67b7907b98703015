#include "sparse/identity.h"

#include <ATen/ATen.h>

namespace topomask {

PatternPtr identity_pattern(int64_t nodes) {
  const c10::InferenceMode ordinary(false);  // a caller may later save it for a backward pass
  return std::make_shared<SparsePattern>(nodes, nodes, at::arange(nodes + 1, at::kLong), at::arange(nodes, at::kInt));
}

}  // namespace topomask

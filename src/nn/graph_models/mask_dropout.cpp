#include "nn/graph_models/mask_dropout.h"

#include <ATen/ATen.h>

#include <cmath>

#include "topomask/masks.h"

namespace topomask {

MaskPtr MaskDropout::operator()(const MaskPtr& mask, bool training) const {
  if (!training || probability_ == 0) return mask;
  TORCH_CHECK(mask, "graph model: attention_dropout must be 0 without a mask, got ", probability_);
  const double entries = mask->counts().sparse_entries.value_or(INFINITY);
  TORCH_CHECK(entries <= static_cast<double>(max_entries_), "graph model: mask ", mask->name(),
              " must have at most max_entries = ", max_entries_, " entries where attention_dropout is ", probability_,
              ", got about ", entries);
  const SparseMatrix matrix = *mask->sparse();
  const at::Tensor values = matrix.values_by_head().expand({heads_, matrix.pattern->entries()});
  return sparse_mask({matrix.pattern, at::dropout(values, probability_, /*train=*/true)});
}

}  // namespace topomask

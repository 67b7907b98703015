#pragma once

#include "python_bridge/objects.h"

namespace topomask::python {

/// sparse_mask whose parameter `values`, [entries] or [H, entries], is in the order of the user: entry e of the pattern
/// has the value in place order[e], int64 [entries], a permutation. The mask follows its parameter as any other does,
/// so that it is made once.
Ref<MaskPtr> ordered_sparse_mask(const Ref<PatternPtr>& pattern, const at::Tensor& order, const at::Tensor& values);

}  // namespace topomask::python

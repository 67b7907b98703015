#pragma once

#include "python_bridge/objects.h"

namespace topomask::python {

/// A mask whose product is a method of a Python object: `callback` is called with "matmul" (x), "matmul_transposed" (x)
/// and "parameter_gradients" (x, grad), on plain tensors [B, H, N, C]. `work` is the multiply-adds of M·x for one
/// column, for the planner; dtype empty: whatever x has.
Ref<MaskPtr> python_mask(int64_t callback, const std::string& name, int64_t size, int64_t heads,
                         std::optional<at::ScalarType> dtype, const std::vector<at::Tensor>& parameters, double work);

}  // namespace topomask::python

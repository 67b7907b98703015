#pragma once

#include "masks/grf/product_arguments.h"

namespace topomask {

// CPU products on checked tensors. They call no dispatcher and record no gradient: for the operators' own
// implementations.

/// A·Bᵀ at the entries of `out`.
at::Tensor product_plain(const ProductTensors& product);

/// ∂⟨grad, A·Bᵀ⟩/∂A.
at::Tensor product_grad_plain(const ProductTensors& product);

}  // namespace topomask

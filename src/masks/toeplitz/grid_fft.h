#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/internal_api.h"

// Toeplitz products on a grid by FFT, on plain tensors: g [H, 2n₁−1, …, 2n_d−1], x [B, H, N, C].
//
// Both are linear convolutions, computed as circular ones of length L_s ≥ 2n_s − 1 per axis: M·x is the part of g∗x
// that does not wrap around, and ∂⟨grad, M·x⟩/∂g is all of grad ∗ (x reversed).

namespace TOPOMASK_INTERNAL_API topomask {

/// M·x.
at::Tensor fft_product(const at::Tensor& g, const at::Tensor& x, const std::vector<int64_t>& dims);

/// Σ_{i−j=δ} grad_i·x_j over the batch and the columns: [H, 2n₁−1, …].
at::Tensor fft_offset_gradient(const at::Tensor& grad, const at::Tensor& x, const std::vector<int64_t>& dims);

/// An integer ≥ n without a prime factor above 7 whose transform is fast: 64 for 63 = 3·3·7.
int64_t fast_fft_size(int64_t n);

/// Time of fft_product per column, in multiply-adds of a sparse product.
double fft_work(const std::vector<int64_t>& dims);

}  // namespace topomask

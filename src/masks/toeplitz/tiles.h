#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

// (M ⊙ A Bᵀ) C for a Toeplitz mask, in tiles of rows: a matrix product, a multiplication with windows of g, a matrix
// product. N²(m+d) multiply-adds at the speed of matrix products, with O(N) memory and no N×N matrix. Plain tensors:
// g [H, 2n₁−1, …], a, b [B, H, N, m], c [B, H, N, d].

namespace topomask {

/// Where M can be nonzero, by the first coordinates of i and j.
enum class Reach { all, below /* j₁ ≤ i₁ */, above /* j₁ ≥ i₁ */ };

at::Tensor tiled_product(const at::Tensor& g, const std::vector<int64_t>& dims, Reach reach, const at::Tensor& a,
                         const at::Tensor& b, const at::Tensor& c);

/// Gradients of ⟨grad, (M ⊙ A Bᵀ) C⟩. That of g, where wanted, is the sum of (a_i·b_j)(grad_i·c_j) over each offset.
struct TiledGradients {
  at::Tensor a, b, c, offsets;
};
TiledGradients tiled_backward(const at::Tensor& g, const std::vector<int64_t>& dims, Reach reach, const at::Tensor& a,
                              const at::Tensor& b, const at::Tensor& c, const at::Tensor& grad, bool want_offsets);

}  // namespace topomask

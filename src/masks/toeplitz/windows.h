#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

// A Toeplitz matrix with its rows in reverse order is a Hankel matrix: with i'_s = n_s − 1 − i_s and h = g reversed,
// M_ij = g(i − j) = h(i' + j). So its rows are windows of h: a view of h holds all of M, and nothing is copied or
// indexed. Reversing every axis reverses the row-major order of the nodes.

namespace topomask {

/// g [H, 2n₁−1, …, 2n_d−1] → M with rows reversed, [H, n₁, …, n_d, n₁, …, n_d], a view of a reversed copy of g.
/// Differentiable.
at::Tensor reversed_windows(const at::Tensor& g, const std::vector<int64_t>& dims);

/// The adjoint of taking windows along the last axes: w […, r_t, …, r_d, w₁, …, w_d] → s […, r_t + w_t − 1, …,
/// r_d + w_d − 1, w₁, …, w_{t−1}], where `windows` = d − t + 1 axes: sums over all entries with equal index i'_s + j_s.
at::Tensor window_sums(const at::Tensor& w, int64_t windows, int64_t axes);

/// M, [H, N, N]; one copy. Differentiable.
at::Tensor toeplitz_dense(const at::Tensor& g, const std::vector<int64_t>& dims);

/// ∂L/∂g from ∂L/∂M [H, N, N].
at::Tensor toeplitz_dense_gradient(const at::Tensor& grad, const std::vector<int64_t>& dims);

}  // namespace topomask

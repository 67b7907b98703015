#pragma once

#include <ATen/core/Tensor.h>

#include "core/internal_api.h"

namespace TOPOMASK_INTERNAL_API topomask {

// Sums and products over long dimensions that come out bit for bit the same for any number of threads, for masks and
// attention on plain tensors. at::sum and the matrix products behind at::matmul share out a sum by the number of
// threads that they have, and the order of additions changes with it. Here a sum is cut into blocks by its length
// alone; blocks are summed in parallel, each by one thread, and their results are added in the order of the blocks. On
// a GPU, where there is no such dependence, these are torch's own; a long sum with a small result is cut there too.

/// Σ_{b,n,c} a·b for each head of a, b [B, H, N, C]: [H], of their dtype, summed in float64.
at::Tensor head_dots(const at::Tensor& a, const at::Tensor& b);

/// Σ_{b,c} a·b for each head and node of a, b [B, H, N, C]: [H, N], of their dtype, summed in float64.
at::Tensor node_dots(const at::Tensor& a, const at::Tensor& b);

/// Σ_n x·y for each column of x, y [..., N, C], with N kept as 1; y left out: Σ_n x. Summed in float64.
at::Tensor column_sums(const at::Tensor& x, const at::Tensor& y = {});

/// Σ_s x[s], in float64.
at::Tensor first_sums(const at::Tensor& x);

/// Σ_{b,c} a_i·b_j for each head, a [B, H, N, C] and b [B, H, M, C]: [H, N, M]. The gradient of ⟨a, M·b⟩ in M.
at::Tensor outer_sums(const at::Tensor& a, const at::Tensor& b);

/// at::matmul for a, b with at least two dimensions, whose leading ones broadcast. Rows of the result are shared out in
/// blocks; where the result is small compared with the inner dimension, that is cut into blocks too. Differentiable.
at::Tensor ordered_matmul(const at::Tensor& a, const at::Tensor& b);

/// The same by torch's products of `block` terms at a time, all in one batch, summed in float32 at least.
at::Tensor matmul_in_blocks(const at::Tensor& a, const at::Tensor& b, int64_t block);

/// a·b and a + b for b that broadcasts to a. Differentiable.
at::Tensor ordered_mul(const at::Tensor& a, const at::Tensor& b);
at::Tensor ordered_add(const at::Tensor& a, const at::Tensor& b);

/// exp of each element, and softmax over the last dimension. Differentiable.
at::Tensor ordered_exp(const at::Tensor& x);
at::Tensor ordered_softmax(const at::Tensor& x);

/// The sum of x over the dimensions that broadcasting a tensor of `shape` to it added, one after the other.
at::Tensor reduced_to(at::Tensor x, at::IntArrayRef shape);

}  // namespace topomask

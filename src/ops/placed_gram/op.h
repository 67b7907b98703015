#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "core/internal_api.h"

// A·Aᵀ on a GPU where its pattern is kept and values change: for every product of two entries of A, the place of its
// sum in the row of the result, found once. What is left to do is to multiply and add; finding places takes three
// quarters of the time of `sparse_gram`. Walks that are too long for lists of hop pairs (ops/hop_pairs) come here.

namespace TOPOMASK_INTERNAL_API topomask {
namespace ops::placed_gram {

/// Entries of a row that a kernel holds; a result with longer rows has no places.
inline constexpr int64_t kLongestRow = 512;

/// Where the places of each row start, int64 [rows + 1], and the places, uint8: one byte each, two (the lower first) in
/// rows of more than 256 entries, in the order of the entries of A and of those of the column of each. Patterns are
/// lists as PatternTensors takes them, with their transpose. Both come back empty where a row is longer than
/// kLongestRow or the places take more than `most` bytes, which is read back. The operator `gram_places`, on CUDA only.
std::tuple<at::Tensor, at::Tensor> make(at::TensorList a, at::TensorList out, int64_t most);

/// The operator `placed_gram`: as `sparse_gram`, values [H, entries] of A, float32 or float64; differentiable once.
at::Tensor gram(const at::Tensor& values, at::TensorList a, at::TensorList out, const at::Tensor& starts,
                const at::Tensor& places);

/// ∂⟨grad, A·Aᵀ⟩/∂A: the operator `placed_gram_backward`.
at::Tensor backward(const at::Tensor& grad, const at::Tensor& values, at::TensorList a, at::TensorList out,
                    const at::Tensor& starts, const at::Tensor& places);

}  // namespace ops::placed_gram
}  // namespace topomask

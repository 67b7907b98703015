#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <string>
#include <vector>

#include "topomask/sparse.h"

// Random sparse matrices and the dense formulas, in plain tensor operations, that the operators are compared with.

namespace topomask::testing {

/// A random pattern [rows, cols] with, where there is room, an empty row (the first), a full row (the last) and an
/// empty column.
PatternPtr random_pattern(int64_t rows, int64_t cols, double density, uint64_t seed);

at::Tensor random_tensor(at::IntArrayRef shape, uint64_t seed, bool positive = false);  ///< float64

/// Detached copies of `inputs` in `dtype`, as leaves that ask for gradients.
std::vector<at::Tensor> leaves(const std::vector<at::Tensor>& inputs, at::ScalarType dtype);

/// out and the gradients of ⟨out, cotangent⟩ for the differentiable `outputs`, after the outputs themselves.
std::vector<at::Tensor> with_gradients(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs);

/// Each pair within `tolerance` of each other, relative to the largest element of the expected one (at least 1).
void expect_close(const std::vector<at::Tensor>& actual, const std::vector<at::Tensor>& expected, double tolerance);

/// The call throws a c10::Error whose message holds `text`.
void expect_error(const std::function<void()>& call, const std::string& text);

/// values [Hv, entries] over a pattern as [Hv, rows, cols].
at::Tensor dense_matrix(const PatternPtr& pattern, const at::Tensor& values);

at::Tensor clamp_reference(const at::Tensor& denominator, double eps);
at::Tensor attention_reference(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
                               double eps);
at::Tensor softmax_reference(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
                             double scale, double eps);

}  // namespace topomask::testing

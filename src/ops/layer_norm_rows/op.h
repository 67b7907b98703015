#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "core/internal_api.h"

namespace TOPOMASK_INTERNAL_API topomask {
namespace ops::layer_norm_rows {

/// (x − mean)/√(variance + eps)·weight + bias over the last dimension of x [..., width], in `dtype`, for rows so narrow
/// that a few threads of a GPU take one each, where torch gives a block to every row. Sums are made in float32, in
/// float64 where x is float64; `dtype` may be narrower than x, so that a linear layer under autocast has nothing to
/// convert. weight and bias [width] have the dtype of x or that of the sums. Two passes over x forward and backward
/// together; the gradients of weight and bias have the same bits every time. Differentiable once. Built on the
/// operators `layer_norm_rows` and `layer_norm_rows_backward`.
at::Tensor norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double eps,
                at::ScalarType dtype);

/// The widest rows of the kernels on a GPU; their widths are multiples of kCudaWidthUnit.
inline constexpr int64_t kMostCudaWidth = 256, kCudaWidthUnit = 4;

/// Whether there is a kernel on the GPU: a width of 4, 8, …, kMostCudaWidth, x in float32, bfloat16 or float16, `dtype`
/// that of x or one of the latter two for x in float32.
bool supports(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, at::ScalarType dtype);
bool supports(int64_t width, at::ScalarType x, at::ScalarType dtype);

using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

/// The result, and of every row [...] the mean and 1/√(variance + eps).
Three forward(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double eps, at::ScalarType dtype);

/// ∂L/∂x, ∂L/∂weight, ∂L/∂bias, each in the dtype of what it is the gradient of.
Three backward(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& mean,
               const at::Tensor& rstd);

/// What the operators ask of their arguments, on every device.
void check(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double eps, at::ScalarType dtype);
void check_backward(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& mean,
                    const at::Tensor& rstd);

}  // namespace ops::layer_norm_rows
}  // namespace topomask

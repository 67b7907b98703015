#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

namespace topomask {

void check_weights(const at::Tensor& scores, const at::Tensor& mask, double eps);

// normalised_weights and its gradient by torch's operations: (weights, denominator) and (of scores, of the mask).
std::tuple<at::Tensor, at::Tensor> plain_weights(const at::Tensor& scores, const at::Tensor& mask, double eps);
std::tuple<at::Tensor, at::Tensor> plain_weights_backward(const at::Tensor& grad, const at::Tensor& scores,
                                                          const at::Tensor& mask, const at::Tensor& denominator,
                                                          double eps);

}  // namespace topomask

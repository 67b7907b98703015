#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "core/internal_api.h"
#include "topomask/sparse.h"

namespace TOPOMASK_INTERNAL_API topomask {

// The attention operators (ops/sparse_attention, ops/factored_product) on matrices, whose values have 1 or H heads.

/// ops::sparse_attention::kernel_attention: out and the denominator.
std::tuple<at::Tensor, at::Tensor> sparse_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                    const SparseMatrix& matrix, double eps, bool nodes_first = false);

/// ops::sparse_attention::softmax_attention: out, the maxima and the denominator.
std::tuple<at::Tensor, at::Tensor, at::Tensor> sparse_softmax_attention(const at::Tensor& q, const at::Tensor& k,
                                                                        const at::Tensor& v, const SparseMatrix& matrix,
                                                                        double scale, double eps);

/// ops::factored_product::multiply: numerator and denominator.
std::tuple<at::Tensor, at::Tensor> factored_product(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                    const SparseMatrix& left, const SparseMatrix& right);

}  // namespace topomask

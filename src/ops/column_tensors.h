#pragma once

#include <ATen/ATen.h>

namespace topomask::ops {

// The columns that features and values make for each node, by tensor operations, for devices without a kernel of our
// own (attention/columns_kernel.h): features [..., N, s], values [..., N, c], columns [..., N, s·c].

/// Features ⊗ values.
inline at::Tensor column_products(const at::Tensor& features, const at::Tensor& values) {
  return (features.unsqueeze(-1) * values.unsqueeze(-2)).flatten(-2);
}

/// Σ_s features_s columns[s, :]: [..., N, c].
inline at::Tensor sum_over_features(const at::Tensor& columns, const at::Tensor& features) {
  return (columns.unflatten(-1, {features.size(-1), -1}) * features.unsqueeze(-1)).sum(-2);
}

/// columns[s, :] · values: [..., N, s].
inline at::Tensor sum_over_values(const at::Tensor& columns, const at::Tensor& values) {
  return (columns.unflatten(-1, {-1, values.size(-1)}) * values.unsqueeze(-2)).sum(-1);
}

}  // namespace topomask::ops

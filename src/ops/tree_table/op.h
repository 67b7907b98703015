#pragma once

#include <ATen/core/Tensor.h>

#include "core/internal_api.h"

// The steps of TableLevels, which multiplies by a table over integer tree distances; tensors are [B, H, rows, C] or as
// TableLevels::Meetings has them. On a GPU only.

namespace TOPOMASK_INTERNAL_API topomask {
namespace ops::tree_table {

/// Sums over the items of each row: the operator `tree_row_sums`.
at::Tensor row_sums(const at::Tensor& x, const at::Tensor& offsets, const at::Tensor& items);

/// y_i += sign·products[place_i] where place_i >= 0: the operator `tree_spread_`.
void spread(at::Tensor y, const at::Tensor& products, const at::Tensor& place, double sign);

/// Σ_t table[depth_s + depth_t]·sums_t inside each meeting: the operator `hankel`.
at::Tensor hankel(const at::Tensor& table, const at::Tensor& sums, const at::Tensor& depth, const at::Tensor& tiles);

/// Adds sign times the gradient of ⟨g, hankel(table, x)⟩ in the table, float64: the operator `hankel_gradient_`.
void add_hankel_gradient(at::Tensor gradient, const at::Tensor& g, const at::Tensor& x, const at::Tensor& depth,
                         const at::Tensor& tiles, double sign);

}  // namespace ops::tree_table
}  // namespace topomask

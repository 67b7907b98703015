#pragma once

#include <ATen/core/Tensor.h>

#include "topomask/export.h"
#include "topomask/graph.h"
#include "topomask/mask.h"

namespace TOPOMASK_API topomask {

struct PowerSeriesOptions {
  /// The explicit K-hop form is offered to the planner only while it holds at most this many entries.
  int64_t max_sparse_entries = int64_t{1} << 26;
};

/// M_α = Σ_{k<K} α_k W^k, exact (equation 4 of Reid et al. 2024, truncated), W the weighted adjacency of the graph.
///
/// alpha [K], or [H, K] for a series per head, K ≥ 1; float32 or float64, the dtype of the graph's weights; finite when
/// it is given, which is checked where it is on the CPU; learnable. The weights of the graph are learnable too where
/// they require grad (`graph.with_weights(w)`): each stored entry of W is a parameter of its own, in CSR order, and the
/// mask follows changes made to w in place, also after w was frozen. Weights that do not require grad when the mask is
/// made are copied. Operator: Horner, (K−1)·|W| multiply-adds per column. Sparse: the K-hop neighbourhood as one
/// pattern shared by all heads, built once on first use; its values Σ_k α_k (W^k)_e are refreshed from α (K
/// multiply-adds per entry). With learnable weights the powers (W^k)_e are refreshed too, at degree·K multiply-adds per
/// entry, and the gradient of the operator form keeps the K−1 steps of Horner's rule in memory.
MaskPtr power_series_mask(const Graph& graph, const at::Tensor& alpha, const PowerSeriesOptions& options = {});

/// The graph, the K-hop neighbourhood and the powers of W on it: what series with other coefficients have in common.
class PowerSeriesBasis;
using PowerSeriesBasisPtr = std::shared_ptr<const PowerSeriesBasis>;

/// The basis of series of `terms` = K ≥ 1 terms. Cheap to make: what is large is built on first use by a mask.
PowerSeriesBasisPtr power_series_basis(const Graph& graph, int64_t terms, const PowerSeriesOptions& options = {});

/// The mask over a basis that many masks share, as walk tables are shared: for α that is computed again in every step.
/// alpha has K coefficients, [K] or [H, K].
MaskPtr power_series_mask(const PowerSeriesBasisPtr& basis, const at::Tensor& alpha);

}  // namespace topomask

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "topomask/export.h"
#include "topomask/mask.h"
#include "topomask/walks.h"

namespace TOPOMASK_API topomask {

// Random-walk node kernels (GKAT, Choromanski et al. 2022), from what walks from every node visit, without importance
// weights:
//
//   F_h[i] = Σ over walks from h, over times t with the walk at i, of λ^t
//
// The discount λ ≥ 0 is [] or [H], one per head, of the table's dtype, and learnable; left out, it is the constant 1 of
// the released experiments, which take 50 uniform walks of 4 nodes: sample_walks(graph, {.walkers = 50, .fixed_hops =
// 3}).

/// F as values over walks.pattern(): [entries], or [H, entries]. Differentiable in λ. O(T·H) for T triples.
at::Tensor walk_frequencies(const WalkTable& walks, const at::Tensor& discount = {});

struct NodeKernelOptions {
  int64_t alpha = 1;  ///< 1: rows are divided by their norm; 0: they are not
  double p = 2;       ///< ≥ 1, the norm (Σ_i F_h[i]^p)^{1/p}; with alpha = 1 and p = 2 the kernel is a cosine
};

/// M_kl = ⟨F_k/‖F_k‖_p^α, F_l/‖F_l‖_p^α⟩, symmetric, with a positive diagonal: nodes attend to those whose walks visit
/// the same places. α = 1, p = 2 for the motif, cycle and citation tasks of the paper.
///
/// Products and features: 2·nnz(F) multiply-adds per column. Sparse: over the pattern of FFᵀ, made on first use and
/// kept with the table; its values cost one multiply-add for every pair of entries of F in one column, and are kept
/// while λ does not change and no gradient is asked.
MaskPtr node_kernel_mask(const WalkTable& walks, const at::Tensor& discount = {},
                         const NodeKernelOptions& options = {});

/// M_kl = F_k[l]/F_k[k]: how often walks from k visit l, relative to k itself; not symmetric. The kernel of the paper's
/// graph classification. nnz(F) multiply-adds per column.
MaskPtr node_frequency_mask(const WalkTable& walks, const at::Tensor& discount = {});

}  // namespace topomask

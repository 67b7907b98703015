#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "topomask/export.h"
#include "topomask/graph.h"
#include "topomask/mask.h"
#include "topomask/walks.h"

namespace TOPOMASK_API topomask {

// Masks from graph random features (Reid et al. 2024): Φ̂ = Σ_t f_t R_t over a table of walks, E[Φ̂] = Σ_t f_t W^t.
//
// f is [K], or [H, K] for a function per head over shared walks; 1 ≤ K ≤ max_hops + 1; of the table's dtype; finite
// when it is given, which is checked where it is on the CPU; learnable. All of them offer the sparse route, over the
// pattern of the product, and, but for stitching, the features route, two sparse products. The pattern of Φ̂Φ̂ᵀ is made
// on first use and cached with the table, so that masks over one table share it and a new mask in every training step
// costs little; its values follow f: Σ over the entries of Φ̂ of the entries in the same column.
//
// The symmetric (shared diagonal), two-sided, asymmetric, stitched and projected masks have gradients in the weights of
// the graph too where the loads of their tables do (topomask/walks.h); ad hoc walks, which have no weights, and exact
// heads refuse such tables.

/// What is on the diagonal of Φ̂Φ̂ᵀ, where queries and keys share their walks and ‖Φ̂_i‖² is too large on average.
enum class Diagonal {
  shared,    ///< ‖Φ̂_i‖², as the paper has it: biased upwards by the variance of Φ̂_i
  debiased,  ///< pairs of walkers from independent groups only: no bias. Needs WalkOptions::group_products
};

struct GrfOptions {
  Diagonal diagonal = Diagonal::shared;
};

/// M̂ = Φ̂Φ̂ᵀ, symmetric; E[M̂_ij] = (ΦΦᵀ)_ij for i ≠ j, which is Σ_k (f∗f)_k W^k where W is symmetric.
///
/// Debiased: M̂_ii = (n²‖Φ̂_i‖² − fᵀG_i f)/P with G the group products and P the ordered pairs of walkers in different
/// groups, and M̂·X = Φ̂(Φ̂ᵀX) + δ⊙X. Refused with fewer than two groups, as repelling walkers in one ensemble are.
MaskPtr grf_mask(const WalkTable& walks, const at::Tensor& f, const GrfOptions& options = {});

/// M̂ = Φ̂₁Φ̂₂ᵀ from two independent tables, unbiased everywhere: the diagonal mode `independent` with two walk sets over
/// one graph, and with keys on the reversed graph M_α of a directed one. `f_key` may be the same tensor as `f_query`
/// (one parameter), or left out, which is the same. Tables that share random numbers are refused.
MaskPtr grf_mask(const WalkTable& query_walks, const WalkTable& key_walks, const at::Tensor& f_query,
                 const at::Tensor& f_key = {});

/// M̂ = Φ̂, the keys' features being the identity: unbiased for Σ_k f_k W^k, so f = α with no deconvolution. The cheapest
/// mask, and not symmetric.
MaskPtr asymmetric_grf_mask(const WalkTable& walks, const at::Tensor& f);

/// Φ̂Φ̂ᵀ with every load 1: walks without importance weights, the ablation of the paper. It estimates no series in W.
MaskPtr ad_hoc_mask(const WalkTable& walks, const at::Tensor& f);

/// The table with the first K₀ = walks.options().exact_hops hops exact: R_t = W^t for t ≤ K₀, and the sampled R_t
/// beyond. `graph` is the one that was walked on. Group products follow, head plus tail for each group. Any mask can be
/// made from it; rows hold the K₀-hop neighbourhood and what walks add.
WalkTable with_exact_head(const WalkTable& walks, const Graph& graph);

/// grf_mask over with_exact_head: Φ̂ = Σ_{t≤K₀} f_t W^t + Σ_{t>K₀} f_t R_t. For several masks make that table once.
MaskPtr hybrid_grf_mask(const WalkTable& walks, const Graph& graph, const at::Tensor& f,
                        const GrfOptions& options = {});

/// GRFs++: M̂ = Π_{i<l} Φ̂_{2i}Φ̂_{2i+1}ᵀ over 2l independent tables of short walks, f the 2l-fold deconvolution of α
/// (deconvolve(alpha, 2l)). Unbiased for Σ_k α_k W^k everywhere, W symmetric; where it is not, the odd tables walk on
/// the reversed graph. Applied factor by factor; the sparse form is offered while it has at most `max_sparse_entries`.
struct StitchOptions {
  int64_t max_sparse_entries = int64_t{1} << 26;
};
MaskPtr stitched_grf_mask(const std::vector<WalkTable>& walks, const at::Tensor& f, const StitchOptions& options = {});

/// (LP)(RP)ᵀ for any mask M = LRᵀ with sparse factors, P random signs/√width from a seed: E[PPᵀ] = I, dense factors of
/// that width (Johnson and Lindenstrauss 1984). Entries keep their mean; the error of one is about ‖L_i‖‖R_j‖/√width.
struct ProjectionOptions {
  int64_t width = 64;  ///< >= 1
  uint64_t seed = 0;
};
MaskPtr projected_mask(const MaskPtr& mask, const ProjectionOptions& options = {});

}  // namespace topomask

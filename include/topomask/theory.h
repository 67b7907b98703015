#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "topomask/export.h"
#include "topomask/graph.h"
#include "topomask/grf.h"

namespace TOPOMASK_API topomask {

// What is proved of M̂ = Φ̂Φ̂ᵀ before any walk is made (Reid et al. 2024). All of it is for independent walkers that halt
// with a fixed probability and move uniformly, and entries off the diagonal.

/// c of Theorem 3.1, which bounds what one walker adds to a row of Φ̂: Σ_k |f_k| (max_ij |W_ij| d_i / (1 − p))^k. For f
/// [H, K] the largest over heads. p in (0, 1), f finite.
double walk_constant(const Graph& graph, const at::Tensor& f, double halting_probability);

/// The same where W_ij = scale/√(d_i d_j), whose loads telescope: √(d_max/d_min) Σ_k |f_k| (|scale|/(1 − p))^k, degrees
/// over the nodes that have neighbours. Much smaller where degrees are uneven and f is long; where f has only its first
/// terms walk_constant may be the smaller one, and the smaller of the two is a bound.
double telescoping_walk_constant(const Graph& graph, const at::Tensor& f, double halting_probability,
                                 double scale = 1.0);

/// Theorem 3.1: Pr(|M̂_ij − M_ij| > deviation) ≤ 2 exp(−t² n³ / (2 (2n − 1)² c⁴)), t the deviation, i ≠ j. Not cut at 1.
/// Deviation and constant are finite and > 0.
double concentration_bound(int64_t walkers, double deviation, double constant);

/// Its inverse: the least n such that the bound is at most `probability`, in (0, 1], for n and every larger number of
/// walkers. The bound falls with n except from n = 1 to n = 2.
int64_t walkers_for(double deviation, double probability, double constant);

/// Lemma 3.2: with probability ≥ 1 − delta a row of Φ̂ has at most n·log(1 − (1 − δ)^{1/n})/log(1 − p) nonzeros, rounded
/// up. Whatever N is, but loose: 7191 at n = 100, p = 0.1, δ = 0.05, where grids have some sixty.
int64_t feature_entries_bound(int64_t walkers, double halting_probability, double delta);

/// Floating-point operations of one attention, one head, as Figure 3 of the paper counts them: 4N²d for softmax, 4Nmd
/// for linear attention without a mask, 4·nnz(Φ̂)·m·d for Algorithm 1 with these walks. The library's sparse route takes
/// 2·nnz(Φ̂Φ̂ᵀ)(m + d) instead.
struct AttentionFlops {
  double softmax = 0, linear = 0, grf = 0;
};
AttentionFlops attention_flops(const WalkTable& walks, int64_t features, int64_t value_dim);

// Errors that are measured on sampled walks.

/// The spread of independent estimates of one mask.
struct MaskError {
  at::Tensor rows;            ///< int64 [r]: the nodes that were sampled
  at::Tensor mean;            ///< rows of the mean of the masks: [r, N], or [H, r, N]
  at::Tensor standard_error;  ///< of an entry of one of the masks; the mean of all B of them is off by 1/√B of it
  /// The same over all entries of those rows: √(Σ standard_error²)/‖M‖, ‖M‖² being that of the mean less its noise.
  /// Relative Frobenius error of one mask, its bias (Diagonal::shared) left out.
  double relative = 0;
};

/// From B ≥ 2 masks over independent walks: tables of different seeds, or of disjoint walkers (first_walker). Any kind
/// of mask. rows: int64 [r], the nodes to measure on. Cost: M·X with r columns for each mask; O(H·r·N) memory.
MaskError mask_error(const std::vector<MaskPtr>& masks, const at::Tensor& rows);

struct ErrorOptions {
  Diagonal diagonal = Diagonal::shared;
  int64_t batches = 8;  ///< tables to compare, each with walkers of its own
  int64_t nodes = 32;   ///< rows to measure on, drawn from the seed of the walks
};

/// The same for grf_mask(sample_walks(graph, walks), f): tables of walks.walkers each, from walks.first_walker on.
MaskError mask_error(const Graph& graph, const WalkOptions& walks, const at::Tensor& f,
                     const ErrorOptions& options = {});

/// The two ways to have M_α from walks.
enum class Estimator {
  symmetric,  ///< Φ̂Φ̂ᵀ: grf_mask, with f∗f = α
  one_sided,  ///< Φ̂ alone: asymmetric_grf_mask, with f = α, after exact hops or not. Not symmetric, and cheaper
};

struct SuggestOptions {
  Diagonal diagonal = Diagonal::debiased;
  bool one_sided = true;  ///< whether masks that are not symmetric may be suggested
  int64_t max_walkers = 512;
  int64_t nodes = 32;      ///< rows on which errors are measured
  int64_t features = 64;   ///< m and
  int64_t value_dim = 64;  ///< d of the attention whose time decides
  uint64_t seed = 0;
};

/// How to get M_α = Σ (f∗f)_k W^k to a relative Frobenius error. Prints as a table.
struct Suggestion {
  struct Choice {
    double error = 0;    ///< measured on a sample of rows
    double seconds = 0;  ///< of one attention, as the planner estimates it
  };
  double tolerance = 0;
  int64_t terms = 0;  ///< of the exact series α that are enough
  Choice exact;
  std::optional<WalkOptions> walks;  ///< the walks found to be enough, if any within max_walkers; exact_hops of them
  Estimator estimator = Estimator::symmetric;  ///< what to make of them
  Choice sampled;
  bool use_exact = true;  ///< the faster of the two
  std::string reason;
};

/// Tries the estimators, couplings, several halting probabilities and exact heads on the graph itself, finds the number
/// of walkers each needs by measuring, and weighs the fastest against the exact series. f [K],
/// finite, K ≥ 1: diffusion_coefficients(10) for a kernel. 0 < tolerance < ∞. Directed graphs: keys walk on the
/// reversed graph. The same answer for the same seed. Cost: a few dozen tables of walks, and the exact series on
/// `nodes` columns.
Suggestion suggest(const Graph& graph, const at::Tensor& f, double tolerance, const SuggestOptions& options = {});

std::ostream& operator<<(std::ostream& out, const Suggestion& suggestion);

/// M_α = Σ_k α_k W^k to a relative error, by what `suggest` finds fastest: the exact series, cut where the tolerance
/// allows, or one-sided walks, the first hops of them exact or not. alpha [K] as the graph's weights, learnable: the
/// choice is made for its values now, the mask follows them afterwards. The name of the mask, which `explain` shows,
/// says what was taken and why. Cost: that of suggest.
MaskPtr auto_mask(const Graph& graph, const at::Tensor& alpha, double tolerance, const SuggestOptions& options = {});

}  // namespace topomask

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "topomask/export.h"
#include "topomask/graph.h"

namespace TOPOMASK_API topomask {

/// How the walkers of one start node depend on each other.
enum class Coupling {
  independent,  ///< not at all
  antithetic,   ///< in pairs (2p, 2p+1) whose halting numbers are u and u + ½ mod 1; an odd last walker is alone
  repelling,    ///< walkers that stand on one node leave it to distinct neighbours, as far as there are enough
  antithetic_repelling,
};

/// Where a walk moves next.
enum class Proposal {
  uniform,  ///< every stored neighbour alike
  weights,  ///< proportional to |W_uv|
  given,    ///< proportional to `WalkOptions::proposal_weights`
};

/// Lengths are geometric with `halting_probability`, unless `fixed_hops` or `survival` is given.
struct WalkOptions {
  int64_t walkers = 4;                     ///< 1 ≤ n < 2³¹, from every node
  double halting_probability = 0.5;        ///< p_halt in (0, 1): a walk halts before each hop with this probability
  int64_t max_hops = 100;                  ///< i_max: no walk makes more hops; at most 32767
  std::optional<int64_t> fixed_hops = {};  ///< every walk makes exactly this many hops (or stops at a dead end)
  at::Tensor survival =
      {};  ///< float64 [K], P(L ≥ t) for t < K: starts at 1, does not rise; lengths of any distribution
  /// K₀: no halting, and no 1/(1−p), in the first K₀ hops, so that the exact head of a series can take their place.
  int64_t exact_hops = 0;
  Coupling coupling = Coupling::independent;
  int64_t ensemble = 0;  ///< repelling walkers come in ensembles of this many, a divisor of n; 0: all n are one
  Proposal proposal = Proposal::uniform;
  at::Tensor proposal_weights = {};  ///< [entries of W], positive where W is not zero; with Proposal::given
  /// Keep Σ_k ⟨R_t^k, R_u^k⟩ over the independent groups k of walkers: what the debiased diagonal needs.
  bool group_products = false;
  uint64_t seed = 0;
  /// Walkers are numbered from here, below 2³² in all: disjoint ranges of one seed are independent tables. Even for
  /// antithetic walkers.
  int64_t first_walker = 0;
};

class KeptLoads;

/// The visits of walks from every node, independent of f: for row i the triples (column, hop, load), one for each
/// node reached at each hop, ordered by column and then hop, with the loads summed over the walkers that met there.
///
/// A walk's load is 1 at its start (hop 0) and is multiplied by W_uv/(q(v|u)(1−h_t)) by the hop t → t+1 from u to v, q
/// the proposal (uniform: 1/deg u) and h_t the probability of halting there. With R_t[i, v] = load(i, v, t)/n,
/// E[R_t] = W^t, and the features are Φ̂ = Σ_t f_t R_t: f stays learnable with no resampling, and
/// ∂L/∂f_t = ⟨∂L/∂Φ̂, R_t⟩. A value type over tensors; copies share storage.
///
/// Where the graph's weights require grad, so do the loads that sample_walks makes on the CPU with uniform proposals:
/// ∂load/∂W_e = load/W_e for each edge e that a walk took, the walks and the probabilities they were drawn with being
/// constants, so that E[∂R_t/∂W] = ∂W^t/∂W. The backward pass walks again instead of keeping the walks: about the time
/// of sampling. A table serves one backward pass of the weights; sample again after changing them. What cannot carry
/// that gradient (other proposals, group products, exact heads, extended, resampled and given walks, walking on the
/// fly, a GPU) refuses such weights.
///
/// Random numbers are a promise: the same walks for any number of threads, on any device. Philox4x32-10 (Salmon et al.
/// 2011), key = (low, high word of the seed), four words from the counter
///   (start node, walker, ⌊t/2⌋, 0): for the hop t → t+1 of a walker, word 2(t mod 2) is its halting number and the
///     next its direction. A walk halts where the halting number < round(h_t·2³²); the odd walker of an antithetic pair
///     takes the number of the even one, plus 2³¹ mod 2³². The direction is the neighbour in place s = ⌊word·deg/2³²⌋
///     of the row; for other proposals s is a slot of the row's alias table, kept where word·deg mod 2³² is below its
///     threshold;
///   (start node, first walker of the block, t, 1 + ⌊j/4⌋): repelling walkers that stand on one node form blocks of its
///     degree in the order of their numbers, and word j mod 4 draws the direction of the j-th one of its block without
///     replacement (Fisher and Yates): place j of 0 … deg−1 is swapped with place j + ⌊word·(deg−j)/2³²⌋.
/// Hence every probability is exact to 2⁻³². Columns, hops and counts are the same bit for bit on every processor,
/// loads to rounding.
class WalkTable {
 public:
  /// The arrays of a table; `pattern` and `feature_offsets` follow from them. Shapes as the accessors say.
  struct Arrays {
    at::Tensor offsets, columns, hops, loads, counts;
    at::Tensor product_offsets = {}, product_hops = {}, product_values = {};
    PatternPtr pattern = {};
    at::Tensor feature_offsets = {};
  };
  /// For the library's own use: nothing is checked. `sampled`: whether sample_walks with `options` gives this table.
  WalkTable(Arrays arrays, WalkOptions options, int64_t max_hops, bool sampled);

  int64_t num_nodes() const { return arrays_.offsets.size(0) - 1; }
  int64_t walkers() const { return options_.walkers; }  ///< n
  int64_t max_hops() const { return max_hops_; }  ///< the longest walk the options allow: f has max_hops + 1 entries
  at::ScalarType dtype() const { return arrays_.loads.scalar_type(); }
  const WalkOptions& options() const { return options_; }
  bool sampled() const { return sampled_; }  ///< false: the walks were brought by the user
  at::Device device() const { return arrays_.loads.device(); }
  /// The same walks with loads in another precision, or on another device.
  WalkTable to(const at::TensorOptions& target) const;

  const at::Tensor& offsets() const {
    return arrays_.offsets;
  }  ///< int64 [N+1]: row i owns offsets[i] … offsets[i+1]-1
  const at::Tensor& columns() const { return arrays_.columns; }  ///< int32 [T]
  const at::Tensor& hops() const { return arrays_.hops; }        ///< int16 [T]
  /// float32 or float64 [T], as the graph's weights: sums over walkers, not divided by n.
  const at::Tensor& loads() const { return arrays_.loads; }
  /// The loads that features and masks compute from. On the CPU these are loads(), and masks follow what is written to
  /// them. On a GPU constant loads are copied when they are first used, and what is written to loads() later has no
  /// effect: telling whether they changed would wait for the device. Hops, columns and offsets must not be written to.
  at::Tensor kept_loads() const;
  const at::Tensor& counts() const { return arrays_.counts; }  ///< int32 [T]: how many walkers met there

  /// The entries of Φ̂: the triples of entry p are feature_offsets[p] … feature_offsets[p+1]-1 (int64 [entries+1]).
  const PatternPtr& pattern() const { return arrays_.pattern; }
  const at::Tensor& feature_offsets() const { return arrays_.feature_offsets; }

  /// With options.group_products, for row i the entries product_offsets[i] … product_offsets[i+1]-1 of the symmetric
  /// G_i[t, u] = Σ_k ⟨R_t^k[i], R_u^k[i]⟩, R^k the summed loads of group k, not divided by anything: those with t ≤ u
  /// that are not zero, ordered by t and then u. Groups are single walkers; antithetic couples; repelling ensembles.
  bool has_group_products() const { return arrays_.product_values.defined(); }
  const at::Tensor& product_offsets() const { return arrays_.product_offsets; }  ///< int64 [N+1]
  const at::Tensor& product_hops() const { return arrays_.product_hops; }        ///< int16 [P, 2]: t, u
  const at::Tensor& product_values() const { return arrays_.product_values; }    ///< [P], dtype as the loads

  int64_t groups() const;  ///< the number of independent groups
  /// n² − Σ_k |k|²: the ordered pairs of walkers in different groups. E[n²‖Φ̂_i‖² − fᵀG_i f] is this many times the
  /// diagonal of E[Φ̂]E[Φ̂]ᵀ.
  int64_t independent_pairs() const;

 private:
  friend class KeptLoads;

  Arrays arrays_;
  WalkOptions options_;
  int64_t max_hops_ = 0;
  bool sampled_ = true;
  std::shared_ptr<KeptLoads> kept_;  // shared by copies
};

/// n walks from every node. O(N·n·hops) time on all threads. Memory: the table, O(T), and some tens of megabytes a
/// thread, however many walkers there are; but repelling walkers of one ensemble are in memory together (2²⁴ visits
/// of an ensemble at most, in expectation: more walkers are refused), and on a GPU all visits are, which must be fewer
/// than 2³¹. Loads are sums in the dtype of W: millions of walkers that meet want float64. Repelling walkers take
/// uniform proposals only.
WalkTable sample_walks(const Graph& graph, const WalkOptions& options = {});

/// The table that sample_walks gives for table.walkers() + more_walkers, bit for bit, where `graph` is the one the
/// table was sampled on. Only the new walkers walk, unless they depend on the old ones: repelling in one ensemble, or
/// group products with an odd antithetic walker.
WalkTable extend_walks(const WalkTable& table, const Graph& graph, int64_t more_walkers);

struct ResampledWalks {
  WalkTable table;
  int64_t rows = 0;  ///< how many were sampled again
};

/// The table that sample_walks gives on `after`, bit for bit, from the one on `before`, a graph of as many nodes: only
/// the rows that visit a node whose row of W, or of the proposals, has changed are sampled again. `proposal_weights`
/// are those of `after`, with Proposal::given.
ResampledWalks resample_walks(const WalkTable& table, const Graph& before, const Graph& after,
                              const at::Tensor& proposal_weights = {});

/// A table of walks the user brings: nodes int64 or int32 [N, walkers, L], the start first, −1 after the end. Loads
/// follow from the options by the rule of WalkTable, or are given: `loads` [N, walkers, L] of the dtype of W, read
/// where nodes are and finite there. Steps must be edges of the graph and no walk longer than the options allow;
/// options.walkers is taken from nodes. Such a table can be neither extended nor resampled.
WalkTable walk_table_from_walks(const Graph& graph, const at::Tensor& nodes, const WalkOptions& options = {},
                                const at::Tensor& loads = {});

/// Values of Φ̂ over table.pattern(): Σ f_hop·load/n over the triples of each entry, for f [K] → [entries], or a
/// function per head, [H, K] → [H, entries]; dtype as the table's. K ≤ max_hops + 1; hops from K on contribute nothing.
/// Differentiable in f, any number of times, and once in the loads. O(T·H).
at::Tensor walk_features(const WalkTable& table, const at::Tensor& f);

/// The same without importance weights: counts in place of loads (the ad-hoc features of the ablation).
at::Tensor adhoc_features(const WalkTable& table, const at::Tensor& f);

/// One file, of a version of its own, with a checksum; it appears under its name when it is whole. Reading refuses a
/// file that is damaged in any byte, and takes no memory that the size of the file does not account for.
void save_walks(const WalkTable& table, const std::string& path);
WalkTable load_walks(const std::string& path);

}  // namespace topomask

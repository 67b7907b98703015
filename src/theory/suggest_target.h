#pragma once

#include "topomask/theory.h"

namespace topomask {

/// What suggestions are measured against: M_α on a sample of rows, and what its truncations lose there.
class SuggestTarget {
 public:
  /// f with f∗f = α, or undefined: no symmetric masks then.
  SuggestTarget(const Graph& graph, const at::Tensor& alpha, const at::Tensor& f, const SuggestOptions& options);

  const Graph& graph() const { return graph_; }
  const at::Tensor& alpha() const { return alpha_; }
  const SuggestOptions& options() const { return options_; }
  bool has_estimator(Estimator estimator) const;

  /// ‖M̂ − M_α‖/‖M_α‖ over the rows.
  double error(const Mask& mask) const;
  /// The same of Σ a_k W^k.
  double error(const at::Tensor& a) const;

  /// The fewest terms of α that stay within a tolerance, and so does every larger number.
  int64_t exact_terms(double tolerance) const;
  /// Hops of the walks beyond which the coefficients add less than the tolerance.
  int64_t hops(Estimator estimator, double tolerance) const;

  MaskPtr sampled(Estimator estimator, const WalkOptions& walks) const;
  /// The time of one attention, as the planner estimates it.
  double seconds(const Mask& mask) const;

 private:
  void measure_powers();
  template <class Series>
  int64_t terms_within(int64_t all, double tolerance, const Series& series) const;

  Graph graph_;
  at::Tensor alpha_, f_;
  SuggestOptions options_;
  at::Tensor rows_, exact_;
  at::Tensor gram_;  // ⟨W^t, W^u⟩ over the rows
};

/// Measures, with the tolerance checked and no gradient recorded.
Suggestion suggest_for(const SuggestTarget& target, double tolerance);

/// "one-sided, repelling, n 8, p_halt 0.5, length 3"; for a suggestion with walks.
std::string describe_walks(const Suggestion& suggestion);

/// One-sided Σ α_k W^k from walks, after walks.exact_hops exact ones.
MaskPtr one_sided_mask(const Graph& graph, const at::Tensor& alpha, const WalkOptions& walks);

void check_suggest_arguments(const char* op, const char* name, const Graph& graph, const at::Tensor& coefficients,
                             double tolerance, const SuggestOptions& options);

}  // namespace topomask

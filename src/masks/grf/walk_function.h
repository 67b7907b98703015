#pragma once

#include "core/checks.h"
#include "topomask/walks.h"

namespace topomask {

// What every factory over walks does with its modulation function f.

inline int64_t function_heads(const at::Tensor& f) {
  return f.dim() == 2 ? f.size(0) : 1;
}

/// `whose` says in errors what has that dtype already.
inline void check_function(const char* op, const char* name, const at::Tensor& f, const at::Tensor& like,
                           const char* whose, int64_t max_hops) {
  TORCH_CHECK(f.defined() && (f.dim() == 1 || f.dim() == 2) && is_real(f.scalar_type()) && f.device() == like.device(),
              op, ": ", name, " must be Float or Double, [K] or [H, K] on ", like.device(), ", got ", describe(f));
  TORCH_CHECK(function_heads(f) >= 1, op, ": ", name, " must have at least one head, got ", describe(f));
  TORCH_CHECK(f.scalar_type() == like.scalar_type(), op, ": ", name, " must be ", like.scalar_type(), " as ", whose,
              " are, got ", describe(f));
  TORCH_CHECK(f.size(-1) >= 1, op, ": ", name, " must have at least one coefficient, got ", describe(f));
  TORCH_CHECK(f.size(-1) <= max_hops + 1, op, ": ", name, " must have at most max_hops + 1 = ", max_hops + 1,
              " coefficients, got ", describe(f));
  check_finite(op, name, f);
}
inline void check_function(const char* op, const char* name, const at::Tensor& f, const WalkTable& walks) {
  check_function(op, name, f, walks.loads(), "the loads of the walks", walks.max_hops());
}

/// Refuses a table whose loads require grad where they are not used.
inline void check_constant_loads(const char* op, const WalkTable& walks) {
  TORCH_CHECK(!walks.loads().requires_grad(), op,
              ": walks must have loads that do not require grad, got loads that do: the mask counts visits and has no "
              "gradient in the graph's weights; sample on a graph whose weights are detached");
}

/// The parameters of a mask over tables: its functions, followed by the loads of each table that is being learned.
std::vector<at::Tensor> walk_parameters(std::vector<at::Tensor> functions, const std::vector<WalkTable>& tables);

/// Tables with their loads taken from such parameters, of which the first `functions` are functions.
std::vector<WalkTable> tables_of(const std::vector<WalkTable>& tables, const std::vector<at::Tensor>& parameters,
                                 size_t functions);

/// What a TensorCache over masks of these tables compares: the parameters and, where it compares them at all, which
/// values the constant loads have.
std::vector<at::Tensor> with_seen_loads(std::vector<at::Tensor> parameters, const std::vector<WalkTable>& tables);

/// Values of Φ̂ from a table: walk_features or adhoc_features.
using FeatureRule = at::Tensor (*)(const WalkTable&, const at::Tensor&);

/// [entries] with one head, [H, entries] with more: what SparseMatrix takes. A function without heads serves them all.
inline at::Tensor feature_values(FeatureRule rule, const WalkTable& walks, const at::Tensor& f, int64_t heads) {
  if (heads == 1) return rule(walks, f.reshape({-1}));
  const at::Tensor values = rule(walks, f);
  return values.dim() == 2 ? values : values.expand({heads, values.size(0)});
}

/// Multiply-adds of rule(walks, f) for one head.
inline double feature_work(const WalkTable& walks) {
  return static_cast<double>(walks.columns().size(0));
}

/// Whether two tables were drawn with the same random numbers, for one walker at least.
bool share_walkers(const WalkTable& a, const WalkTable& b);

}  // namespace topomask

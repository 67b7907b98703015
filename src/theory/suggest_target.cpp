#include "theory/suggest_target.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "core/checks.h"
#include "core/move.h"
#include "graph/weights.h"
#include "theory/sampled_rows.h"
#include "topomask/coefficients.h"
#include "topomask/planner.h"
#include "topomask/power_series.h"

namespace topomask {

SuggestTarget::SuggestTarget(const Graph& graph, const at::Tensor& alpha, const at::Tensor& f,
                             const SuggestOptions& options)
    : graph_(with_constant_weights(graph)),
      alpha_(alpha.detach()),
      f_(f.defined() ? f.detach() : f),
      options_(options) {
  rows_ = sample_nodes(graph.num_nodes(), options.nodes, options.seed);
  exact_ = mask_rows(*power_series_mask(graph_, alpha_), rows_);
  measure_powers();
}

bool SuggestTarget::has_estimator(Estimator estimator) const {
  return estimator == Estimator::symmetric ? f_.defined() : options_.one_sided;
}

double SuggestTarget::error(const Mask& mask) const {
  const double norm = exact_.norm().item<double>();
  return norm == 0 ? 0 : (mask_rows(mask, rows_) - exact_).norm().item<double>() / norm;
}

double SuggestTarget::error(const at::Tensor& a) const {
  const at::Tensor full = alpha_.to(at::kDouble);
  const at::Tensor lost = at::constant_pad_nd(a.to(at::kDouble), {0, full.size(0) - a.size(0)}) - full;
  const auto norm = [this](const at::Tensor& c) {
    return std::sqrt(std::max(0.0, at::dot(c, at::mv(gram_, c)).item<double>()));
  };
  const double whole = norm(full);
  return whole == 0 ? 0 : norm(lost) / whole;
}

template <class Series>
int64_t SuggestTarget::terms_within(int64_t all, double tolerance, const Series& series) const {
  int64_t terms = all;
  while (terms > 1 && error(series(terms - 1)) <= tolerance) --terms;
  return terms;
}

int64_t SuggestTarget::exact_terms(double tolerance) const {
  return terms_within(alpha_.size(0), tolerance, [this](int64_t k) { return alpha_.narrow(0, 0, k); });
}

int64_t SuggestTarget::hops(Estimator estimator, double tolerance) const {
  if (estimator == Estimator::one_sided) return exact_terms(tolerance) - 1;
  const auto series = [this](int64_t k) { return convolve(f_.narrow(0, 0, k), 2, alpha_.size(0)); };
  return terms_within(f_.size(0), tolerance, series) - 1;
}

MaskPtr SuggestTarget::sampled(Estimator estimator, const WalkOptions& walks) const {
  if (estimator == Estimator::one_sided) return one_sided_mask(graph_, alpha_, walks);
  const at::Tensor f = f_.narrow(0, 0, walks.max_hops + 1);
  const WalkTable table = sample_walks(graph_, walks);
  if (!graph_.directed()) return grf_mask(table, f, {.diagonal = options_.diagonal});
  WalkOptions keys = walks;
  keys.first_walker += walks.walkers + walks.walkers % 2;
  return grf_mask(table, sample_walks(graph_.reversed(), keys), f);
}

double SuggestTarget::seconds(const Mask& mask) const {
  const Workload workload{.nodes = mask.size(),
                          .features = options_.features,
                          .value_dim = options_.value_dim,
                          .threads = at::get_num_threads()};
  const Plan plan = plan_attention(mask, workload);
  for (const RouteEstimate& estimate : plan.estimates) {
    if (estimate.route == plan.route) return estimate.seconds;
  }
  return 0;
}

/// A few rows at a time: all powers are in memory at once.
void SuggestTarget::measure_powers() {
  const int64_t terms = alpha_.size(0), nodes = graph_.num_nodes();
  constexpr int64_t kElements = int64_t{1} << 25;
  const int64_t chunk = std::max<int64_t>(1, kElements / std::max<int64_t>(1, terms * nodes));
  gram_ = at::zeros({terms, terms}, at::kDouble);
  for (const at::Tensor& some : rows_.split(chunk)) {
    at::Tensor power = mask_rows(*power_series_mask(graph_, at::ones({1}, alpha_.options())), some).mT();
    std::vector<at::Tensor> powers;
    for (int64_t k = 0; k < terms; ++k) {
      if (k > 0) power = matmul_transposed(graph_.matrix(), power);
      powers.push_back(power.reshape({-1}));
    }
    if (terms == 0) continue;
    const at::Tensor all = at::stack(powers).to(at::kDouble);
    gram_ += at::matmul(all, all.mT());
  }
}

MaskPtr one_sided_mask(const Graph& graph, const at::Tensor& alpha, const WalkOptions& walks) {
  const WalkTable table = sample_walks(graph, walks);
  return asymmetric_grf_mask(walks.exact_hops > 0 ? with_exact_head(table, graph) : table,
                             alpha.narrow(0, 0, walks.max_hops + 1));
}

void check_suggest_arguments(const char* op, const char* name, const Graph& graph, const at::Tensor& coefficients,
                             double tolerance, const SuggestOptions& options) {
  check_on_cpu(op, "graph", graph.device());
  TORCH_CHECK(coefficients.defined() && coefficients.dim() == 1 && coefficients.size(0) >= 1 &&
                  coefficients.scalar_type() == graph.weights().scalar_type(),
              op, ": ", name, " must be ", graph.weights().scalar_type(),
              " [K] as the graph's weights are, K >= 1, got ", describe(coefficients));
  check_finite(op, name, coefficients);
  TORCH_CHECK(tolerance > 0 && tolerance < 1, op, ": tolerance must be in (0, 1), got ", tolerance);
  TORCH_CHECK(options.nodes >= 1, op, ": nodes must be >= 1, got ", options.nodes);
  TORCH_CHECK(options.max_walkers >= 4, op, ": max_walkers must be >= 4, got ", options.max_walkers);
  TORCH_CHECK(options.max_walkers <= std::numeric_limits<int32_t>::max(), op,
              ": max_walkers must be at most 2^31-1, got ", options.max_walkers);
  TORCH_CHECK(options.features >= 1, op, ": features must be >= 1, got ", options.features);
  TORCH_CHECK(options.value_dim >= 1, op, ": value_dim must be >= 1, got ", options.value_dim);
}

}  // namespace topomask

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <iomanip>
#include <ostream>
#include <sstream>

#include "core/checks.h"
#include "theory/sampled_rows.h"
#include "topomask/coefficients.h"
#include "topomask/planner.h"
#include "topomask/power_series.h"
#include "topomask/theory.h"

namespace topomask {
namespace {

/// What is measured against: the exact mask on a sample of rows, and what its truncations lose there.
class Target {
 public:
  Target(const Graph& graph, const at::Tensor& f, const SuggestOptions& options)
      : graph_(graph),
        f_(f.detach()),
        alpha_(convolve(f_, 2, std::max<int64_t>(2 * f.size(0) - 1, 0))),
        options_(options) {
    rows_ = sample_nodes(graph.num_nodes(), options.nodes, options.seed);
    exact_ = mask_rows(*power_series_mask(graph, alpha_), rows_);
    measure_powers();
  }

  const Graph& graph() const { return graph_; }
  const at::Tensor& alpha() const { return alpha_; }
  const SuggestOptions& options() const { return options_; }

  double error(const Mask& mask) const {
    const double norm = exact_.norm().item<double>();
    return norm == 0 ? 0 : (mask_rows(mask, rows_) - exact_).norm().item<double>() / norm;
  }

  /// ‖Σ (a_k − α_k) W^k‖/‖Σ α_k W^k‖ over the rows.
  double error(const at::Tensor& a) const {
    const at::Tensor full = alpha_.to(at::kDouble);
    const at::Tensor lost = at::constant_pad_nd(a.to(at::kDouble), {0, full.size(0) - a.size(0)}) - full;
    const auto norm = [this](const at::Tensor& c) {
      return std::sqrt(std::max(0.0, at::dot(c, at::mv(gram_, c)).item<double>()));
    };
    const double whole = norm(full);
    return whole == 0 ? 0 : norm(lost) / whole;
  }

  /// The fewest terms of the series that stay within a tolerance, and so does every larger number.
  template <class Series>
  int64_t terms_within(int64_t all, double tolerance, const Series& series) const {
    int64_t terms = all;
    while (terms > 1 && error(series(terms - 1)) <= tolerance) --terms;
    return terms;
  }

  int64_t exact_terms(double tolerance) const {
    return terms_within(alpha_.size(0), tolerance, [this](int64_t k) { return alpha_.narrow(0, 0, k); });
  }

  /// Hops of the walks beyond which f adds less than the tolerance.
  int64_t hops(double tolerance) const {
    return terms_within(f_.size(0), tolerance,
                        [this](int64_t k) { return convolve(f_.narrow(0, 0, k), 2, alpha_.size(0)); }) -
           1;
  }

  MaskPtr sampled(const WalkOptions& walks) const {
    const at::Tensor f = f_.narrow(0, 0, walks.max_hops + 1);
    const WalkTable table = sample_walks(graph_, walks);
    if (!graph_.directed()) return grf_mask(table, f, {.diagonal = options_.diagonal});
    WalkOptions keys = walks;
    keys.first_walker += walks.walkers + walks.walkers % 2;
    return grf_mask(table, sample_walks(graph_.reversed(), keys), f);
  }

  double seconds(const Mask& mask) const {
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

 private:
  /// ⟨W^t, W^u⟩ over the rows, a few of them at a time: all powers are in memory at once.
  void measure_powers() {
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

  Graph graph_;
  at::Tensor f_, alpha_;
  SuggestOptions options_;
  at::Tensor rows_, exact_, gram_;
};

struct Candidate {
  WalkOptions walks;
  double error = 0;
  double walkers = 0;  ///< that the tolerance asks, extrapolated
  double work() const {
    return walkers * std::min(1 / walks.halting_probability, static_cast<double>(walks.max_hops) + 1);
  }
};

void set_walkers(WalkOptions& walks, int64_t walkers) {
  walks.walkers = std::max<int64_t>(4, walkers + walkers % 2);
  const bool repels = walks.coupling == Coupling::repelling || walks.coupling == Coupling::antithetic_repelling;
  // Two ensembles, so that the diagonal has independent groups; couples stay whole.
  if (repels) {
    walks.walkers = (walks.walkers + 3) / 4 * 4;
    walks.ensemble = walks.walkers / 2;
  }
}

/// Every coupling and halting probability at a few walkers; the number each needs by the 1/n law, cheapest first.
std::vector<Candidate> candidates(const Target& target, double tolerance) {
  constexpr int64_t kTrial = 8;
  std::vector<Candidate> all;
  for (Coupling coupling :
       {Coupling::independent, Coupling::antithetic, Coupling::repelling, Coupling::antithetic_repelling}) {
    for (double halting : {0.5, 0.35, 0.2, 0.1}) {
      Candidate candidate;
      candidate.walks = {
          .halting_probability = halting,
          .max_hops = target.hops(tolerance / 4),
          .coupling = coupling,
          .group_products = target.options().diagonal == Diagonal::debiased && !target.graph().directed(),
          .seed = target.options().seed};
      set_walkers(candidate.walks, kTrial);
      candidate.error = target.error(*target.sampled(candidate.walks));
      const double ratio = candidate.error / tolerance;
      candidate.walkers = static_cast<double>(kTrial) * ratio * ratio;
      if (candidate.walkers <= 2.0 * static_cast<double>(target.options().max_walkers)) all.push_back(candidate);
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.work() < b.work(); });
  return all;
}

/// The fewest walkers found to meet the tolerance, by measuring and correcting a few times.
std::optional<Candidate> refine(const Target& target, Candidate candidate, double tolerance) {
  constexpr int kRounds = 4;
  std::optional<Candidate> best;
  double wanted = candidate.walkers;
  for (int round = 0; round < kRounds; ++round) {
    set_walkers(candidate.walks, static_cast<int64_t>(std::ceil(wanted)));
    if (candidate.walks.walkers > target.options().max_walkers) break;
    if (best && candidate.walks.walkers >= best->walks.walkers) break;
    candidate.error = target.error(*target.sampled(candidate.walks));
    if (candidate.error <= tolerance) best = candidate;
    const double ratio = candidate.error / tolerance;
    wanted = static_cast<double>(candidate.walks.walkers) * ratio * ratio * (ratio > 1 ? 1.1 : 1.0);
    if (best && ratio > 1) break;
  }
  return best;
}

const char* name_of(Coupling coupling) {
  switch (coupling) {
    case Coupling::independent:
      return "independent";
    case Coupling::antithetic:
      return "antithetic";
    case Coupling::repelling:
      return "repelling";
    case Coupling::antithetic_repelling:
      return "antithetic and repelling";
  }
  return "unknown";
}

}  // namespace

Suggestion suggest(const Graph& graph, const at::Tensor& f, double tolerance, const SuggestOptions& options) {
  TORCH_CHECK(f.defined() && f.dim() == 1 && f.size(0) >= 1 && f.scalar_type() == graph.weights().scalar_type(),
              "suggest: f must be ", graph.weights().scalar_type(), " [K] as the graph's weights are, K >= 1, got ",
              describe(f));
  TORCH_CHECK(tolerance > 0, "suggest: tolerance must be > 0, got ", tolerance);
  TORCH_CHECK(options.nodes >= 1, "suggest: nodes must be >= 1, got ", options.nodes);
  TORCH_CHECK(options.max_walkers >= 4, "suggest: max_walkers must be >= 4, got ", options.max_walkers);
  const at::NoGradGuard no_grad;
  const Target target(graph, f, options);
  Suggestion result{.tolerance = tolerance, .terms = target.exact_terms(tolerance)};
  const at::Tensor enough = target.alpha().narrow(0, 0, result.terms);
  result.exact = {target.error(enough), target.seconds(*power_series_mask(graph, enough))};
  constexpr size_t kTried = 3;
  const auto all = candidates(target, tolerance);
  for (size_t i = 0; i < all.size() && i < kTried; ++i) {
    const auto found = refine(target, all[i], tolerance);
    if (!found) continue;
    const double seconds = target.seconds(*target.sampled(found->walks));
    if (result.walks && seconds >= result.sampled.seconds) continue;
    result.walks = found->walks;
    result.sampled = {found->error, seconds};
  }
  result.use_exact = !result.walks || result.exact.seconds <= result.sampled.seconds;
  std::ostringstream reason;
  reason << std::setprecision(2);
  if (!result.walks) {
    reason << "no walks within " << options.max_walkers << " walkers meet the tolerance";
  } else if (result.use_exact) {
    reason << "walks take " << result.sampled.seconds / result.exact.seconds << "x the time";
  } else {
    reason << "the exact series takes " << result.exact.seconds / result.sampled.seconds << "x the time";
  }
  result.reason = reason.str();
  return result;
}

std::ostream& operator<<(std::ostream& out, const Suggestion& s) {
  std::ostringstream text;
  text << std::setprecision(3) << "for a relative error of " << s.tolerance << ":\n";
  text << "  exact series  " << s.terms << (s.terms == 1 ? " term" : " terms") << ", error " << s.exact.error << ", "
       << s.exact.seconds * 1e3 << " ms\n";
  if (s.walks) {
    text << "  walks         " << name_of(s.walks->coupling) << ", n " << s.walks->walkers << ", p_halt "
         << s.walks->halting_probability << ", length " << s.walks->max_hops << ", error " << s.sampled.error << ", "
         << s.sampled.seconds * 1e3 << " ms\n";
  }
  text << "use " << (s.use_exact ? "the exact series" : "the walks") << ": " << s.reason << '\n';
  return out << text.str();
}

}  // namespace topomask

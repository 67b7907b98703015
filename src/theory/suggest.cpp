#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <iomanip>
#include <ostream>
#include <sstream>

#include "core/progress_report.h"
#include "theory/names.h"
#include "theory/suggest_target.h"
#include "topomask/coefficients.h"
#include "topomask/power_series.h"
#include "walks/names.h"
#include "walks/plan.h"

namespace topomask {
namespace {

struct Candidate {
  Estimator estimator;
  WalkOptions walks;
  double error = 0;
  double walkers = 0;  ///< that the tolerance asks, extrapolated
  double work() const {
    return walkers * std::min(1 / walks.halting_probability, static_cast<double>(walks.max_hops) + 1);
  }
};

bool repels(const WalkOptions& walks) {
  return walks.coupling == Coupling::repelling || walks.coupling == Coupling::antithetic_repelling;
}

/// Rounds up to whole couples of walkers. Symmetric masks take two ensembles of repelling walkers, so that the diagonal
/// has independent groups.
void set_walkers(Candidate& candidate, int64_t walkers) {
  WalkOptions& walks = candidate.walks;
  walks.walkers = std::max<int64_t>(4, walkers + walkers % 2);
  if (candidate.estimator == Estimator::symmetric && repels(walks)) {
    walks.walkers = (walks.walkers + 3) / 4 * 4;
    walks.ensemble = walks.walkers / 2;
  }
}

/// Whether repelling walkers would be too many for one ensemble.
bool beyond_ensemble(const WalkOptions& walks) {
  if (!repels(walks)) return false;
  WalkOptions few = walks;
  few.walkers = 2;
  few.ensemble = 0;
  return (walks.ensemble > 0 ? walks.ensemble : walks.walkers) > WalkPlan("suggest", few).largest_ensemble();
}

std::vector<Coupling> couplings(int64_t exact_hops) {
  // After exact hops the tail is small: the best coupling in all measurements is enough.
  if (exact_hops > 0) return {Coupling::antithetic_repelling};
  return {Coupling::independent, Coupling::antithetic, Coupling::repelling, Coupling::antithetic_repelling};
}

/// An exact head stores the K₀-hop neighbourhood of each row: it is not tried if these are most of the entries that
/// walks would avoid.
constexpr double kLargestHead = 300;

/// A bound on the entries of a row of W^hops, the mean over rows: the number of paths.
double head_entries(const Graph& graph, int64_t hops) {
  if (graph.num_nodes() == 0) return 0;
  const SparseMatrix edges{graph.pattern(), at::ones_like(graph.weights())};
  at::Tensor paths = at::ones({graph.num_nodes(), 1}, graph.weights().options());
  for (int64_t k = 0; k < hops; ++k) paths = matmul(edges, paths);
  return paths.mean().item<double>();
}

/// One way to sample the mask: an estimator after some exact hops.
struct Attempt {
  Estimator estimator;
  int64_t exact_hops;
};

constexpr double kHaltingProbabilities[] = {0.5, 0.35, 0.2, 0.1};
constexpr size_t kRefined = 2;  // of the candidates of an attempt

/// Counts the masks that are made, since they take most of the time.
class TrialCount {
 public:
  explicit TrialCount(const std::vector<Attempt>& attempts) {
    for (const Attempt& attempt : attempts) {
      total_ += std::ssize(couplings(attempt.exact_hops)) * std::ssize(kHaltingProbabilities) + kRefined;
    }
  }
  void next() { report_progress("suggest", std::min(++done_, total_), total_); }

 private:
  int64_t done_ = 0, total_ = 0;
};

/// Tries every coupling and halting probability with a few walkers and estimates by the 1/n law how many each needs;
/// cheapest first.
std::vector<Candidate> candidates(const SuggestTarget& target, double tolerance, Attempt attempt, TrialCount& trials) {
  const auto [estimator, exact_hops] = attempt;
  constexpr int64_t kTrial = 8;
  const int64_t hops = target.hops(estimator, tolerance / 4);
  std::vector<Candidate> all;
  if (!target.has_estimator(estimator) || (exact_hops > 0 && exact_hops >= hops)) return all;
  const SuggestOptions& options = target.options();
  for (const Coupling coupling : couplings(exact_hops)) {
    for (const double halting : kHaltingProbabilities) {
      Candidate candidate{.estimator = estimator};
      candidate.walks = {.halting_probability = halting,
                         .max_hops = hops,
                         .exact_hops = exact_hops,
                         .coupling = coupling,
                         .group_products = estimator == Estimator::symmetric &&
                                           options.diagonal == Diagonal::debiased && !target.graph().directed(),
                         .seed = options.seed};
      set_walkers(candidate, kTrial);
      candidate.error = target.error(*target.sampled(estimator, candidate.walks));
      trials.next();
      const double ratio = candidate.error / tolerance;
      candidate.walkers = static_cast<double>(kTrial) * ratio * ratio;
      if (candidate.walkers <= 2.0 * static_cast<double>(options.max_walkers)) all.push_back(candidate);
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.work() < b.work(); });
  return all;
}

/// The smallest number of walkers found to meet the tolerance; it is measured and corrected a few times.
std::optional<Candidate> refine(const SuggestTarget& target, Candidate candidate, double tolerance) {
  constexpr int kRounds = 4;
  std::optional<Candidate> best;
  double wanted = candidate.walkers;
  for (int round = 0; round < kRounds; ++round) {
    set_walkers(candidate, static_cast<int64_t>(std::ceil(wanted)));
    if (candidate.walks.walkers > target.options().max_walkers || beyond_ensemble(candidate.walks)) break;
    if (best && candidate.walks.walkers >= best->walks.walkers) break;
    candidate.error = target.error(*target.sampled(candidate.estimator, candidate.walks));
    if (candidate.error <= tolerance) best = candidate;
    const double ratio = candidate.error / tolerance;
    wanted = static_cast<double>(candidate.walks.walkers) * ratio * ratio * (ratio > 1 ? 1.1 : 1.0);
    if (best && ratio > 1) break;
  }
  return best;
}

/// Measures the best few candidates of one kind; the fastest replaces the walks of the suggestion if it beats them.
void try_walks(const SuggestTarget& target, double tolerance, Attempt attempt, TrialCount& trials, Suggestion& result) {
  const auto all = candidates(target, tolerance, attempt, trials);
  for (size_t i = 0; i < all.size() && i < kRefined; ++i) {
    const auto found = refine(target, all[i], tolerance);
    trials.next();
    if (!found) continue;
    const double seconds = target.seconds(*target.sampled(attempt.estimator, found->walks));
    if (result.walks && seconds >= result.sampled.seconds) continue;
    result.estimator = attempt.estimator;
    result.walks = found->walks;
    result.sampled = {found->error, seconds};
  }
}

std::string reason_for(const Suggestion& s, const SuggestOptions& options) {
  std::ostringstream reason;
  reason << std::setprecision(2);
  if (!s.walks) {
    reason << "no walks within " << options.max_walkers << " walkers meet the tolerance";
  } else if (s.use_exact) {
    reason << "walks take " << s.sampled.seconds / s.exact.seconds << "x the time";
  } else {
    reason << "the exact series takes " << s.exact.seconds / s.sampled.seconds << "x the time";
  }
  return reason.str();
}

}  // namespace

Suggestion suggest_for(const SuggestTarget& target, double tolerance) {
  Suggestion result{.tolerance = tolerance, .terms = target.exact_terms(tolerance)};
  const at::Tensor enough = target.alpha().narrow(0, 0, result.terms);
  result.exact = {target.error(enough), target.seconds(*power_series_mask(target.graph(), enough))};
  std::vector<Attempt> attempts{{Estimator::symmetric, 0}};
  for (int64_t head = 0; head <= 2 && head_entries(target.graph(), head) <= kLargestHead; ++head) {
    attempts.push_back({Estimator::one_sided, head});
  }
  TrialCount trials(attempts);
  for (const Attempt& attempt : attempts) try_walks(target, tolerance, attempt, trials, result);
  result.use_exact = !result.walks || result.exact.seconds <= result.sampled.seconds;
  result.reason = reason_for(result, target.options());
  return result;
}

Suggestion suggest(const Graph& graph, const at::Tensor& f, double tolerance, const SuggestOptions& options) {
  check_suggest_arguments("suggest", "f", graph, f, tolerance, options);
  const at::NoGradGuard no_grad;
  return suggest_for(SuggestTarget(graph, convolve(f.detach(), 2, 2 * f.size(0) - 1), f, options), tolerance);
}

std::string describe_walks(const Suggestion& s) {
  std::ostringstream text;
  text << std::setprecision(3) << kEstimatorNames[s.estimator] << ", " << kCouplingNames[s.walks->coupling] << ", n "
       << s.walks->walkers << ", p_halt " << s.walks->halting_probability << ", length " << s.walks->max_hops;
  if (s.walks->exact_hops > 0) text << ", the first " << s.walks->exact_hops << " exact";
  return text.str();
}

std::ostream& operator<<(std::ostream& out, const Suggestion& s) {
  std::ostringstream text;
  text << std::setprecision(3) << "for a relative error of " << s.tolerance << ":\n";
  text << "  exact series  " << s.terms << (s.terms == 1 ? " term" : " terms") << ", error " << s.exact.error << ", "
       << s.exact.seconds * 1e3 << " ms\n";
  if (s.walks) {
    text << "  walks         " << describe_walks(s) << ", error " << s.sampled.error << ", " << s.sampled.seconds * 1e3
         << " ms\n";
  }
  text << "use " << (s.use_exact ? "the exact series" : "the walks") << ": " << s.reason << '\n';
  return out << text.str();
}

}  // namespace topomask

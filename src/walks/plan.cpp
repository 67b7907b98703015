#include "walks/plan.h"

#include <ATen/ATen.h>

#include <cmath>

#include "core/checks.h"

namespace topomask {
namespace {

constexpr int64_t kMostHops = 32767;                                   // hops are int16
constexpr int64_t kMostWalkers = std::numeric_limits<int32_t>::max();  // counts are int32
constexpr int64_t kWalkerNumbers = int64_t{1} << 32;

/// The probability of halting after t hops, for every t a walk can reach.
std::vector<double> halting(const char* op, const WalkOptions& options) {
  if (options.fixed_hops) return std::vector<double>(static_cast<size_t>(*options.fixed_hops), 0.0);
  std::vector<double> result(static_cast<size_t>(options.max_hops), options.halting_probability);
  if (!options.survival.defined()) return result;
  const at::Tensor given = options.survival;
  TORCH_CHECK(given.dim() == 1 && given.scalar_type() == at::kDouble && given.device().is_cpu() && given.size(0) >= 1,
              op, ": survival must be float64 [K], K >= 1, on cpu, got ", describe(given));
  const at::Tensor kept = given.contiguous();
  const double* survival = kept.const_data_ptr<double>();
  TORCH_CHECK(survival[0] == 1, op, ": survival must start at 1, got ", survival[0]);
  int64_t hops = 0;
  for (int64_t t = 1; t < kept.size(0); ++t) {
    TORCH_CHECK(survival[t] >= 0 && survival[t] <= survival[t - 1], op,
                ": survival must not rise nor fall below 0, got ", survival[t], " after ", survival[t - 1], " at hop ",
                t);
    if (survival[t] > 0 && t <= options.max_hops)
      result[static_cast<size_t>(hops++)] = 1 - survival[t] / survival[t - 1];
  }
  result.resize(static_cast<size_t>(hops));
  return result;
}

void check_walkers(const char* op, const WalkOptions& options, const WalkPlan& plan) {
  TORCH_CHECK(options.walkers >= 1 && options.walkers <= kMostWalkers, op, ": walkers must be in [1, 2^31-1], got ",
              options.walkers);
  TORCH_CHECK(options.first_walker >= 0 && options.first_walker <= kWalkerNumbers - options.walkers, op,
              ": first_walker must be >= 0 and first_walker + walkers <= 2^32, got ", options.first_walker, " and ",
              options.walkers, " walkers");
  TORCH_CHECK(!plan.antithetic || options.first_walker % 2 == 0, op,
              ": first_walker must be even for antithetic walkers, got ", options.first_walker);
  TORCH_CHECK(options.ensemble >= 0 && (options.ensemble == 0 || options.walkers % options.ensemble == 0), op,
              ": ensemble must be 0 or divide walkers = ", options.walkers, ", got ", options.ensemble);
  TORCH_CHECK(options.ensemble == 0 || plan.repelling, op, ": ensemble is for repelling walkers only, got ",
              options.ensemble);
  TORCH_CHECK(!plan.antithetic || options.ensemble % 2 == 0, op, ": ensemble must be even for antithetic walkers, got ",
              options.ensemble);
}

void check_lengths(const char* op, const WalkOptions& options) {
  TORCH_CHECK(!options.fixed_hops || !options.survival.defined(), op,
              ": fixed_hops and survival must not both be given");
  if (options.fixed_hops) {
    TORCH_CHECK(*options.fixed_hops >= 0 && *options.fixed_hops <= kMostHops, op, ": fixed_hops must be in [0, ",
                kMostHops, "], got ", *options.fixed_hops);
  }
  TORCH_CHECK(options.max_hops >= 0 && options.max_hops <= kMostHops, op, ": max_hops must be in [0, ", kMostHops,
              "], got ", options.max_hops);
  TORCH_CHECK(options.halting_probability > 0 && options.halting_probability < 1, op,
              ": halting_probability must be in (0, 1), got ", options.halting_probability,
              "; for walks that do not halt there is fixed_hops");
}

}  // namespace

WalkPlan::WalkPlan(const char* op, const WalkOptions& options)
    : key(philox_key(options.seed)),
      antithetic(options.coupling == Coupling::antithetic || options.coupling == Coupling::antithetic_repelling),
      repelling(options.coupling == Coupling::repelling || options.coupling == Coupling::antithetic_repelling) {
  check_walkers(op, options, *this);
  check_lengths(op, options);
  if (repelling) {
    group = options.ensemble > 0 ? options.ensemble : options.walkers;
  } else if (antithetic) {
    group = 2;
  }
  const std::vector<double> halts = halting(op, options);
  max_hops = static_cast<int64_t>(halts.size());
  TORCH_CHECK(options.exact_hops >= 0 && options.exact_hops <= max_hops, op,
              ": exact_hops must be between 0 and the longest walk, ", max_hops, ", got ", options.exact_hops);
  for (int64_t t = 0; t < max_hops; ++t) {
    const double h = t < options.exact_hops ? 0.0 : halts[static_cast<size_t>(t)];
    survival.push_back(1 - h);
    halt_below.push_back(static_cast<uint32_t>(std::min(std::round(std::ldexp(h, 32)), 4294967295.0)));
  }
  TORCH_CHECK(!repelling || group <= largest_ensemble(), op, ": ", options.ensemble > 0 ? "ensemble" : "walkers",
              " must be at most ", largest_ensemble(), " for an ensemble of repelling walkers with ",
              visits_per_walker(), " visits each, which are in memory together, got ", group,
              "; a smaller ensemble divides the walkers into several");
}

double WalkPlan::visits_per_walker() const {
  double visits = 1, alive = 1;
  for (const double kept : survival) visits += alive *= kept;
  return visits;
}

int64_t WalkPlan::largest_ensemble() const {
  return static_cast<int64_t>(kMostEnsembleVisits / visits_per_walker());
}

}  // namespace topomask

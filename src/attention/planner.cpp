#include "topomask/planner.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <iomanip>
#include <ostream>
#include <sstream>

#include "attention/cost_model.h"
#include "attention/names.h"
#include "attention/route_slices.h"
#include "core/checks.h"

namespace topomask {
namespace {

/// Bytes of N×N matrices that the dense route may take on a GPU without being named.
constexpr double kLargestDenseOnCuda = 1 << 30;

std::string seconds_text(double seconds) {
  std::ostringstream out;
  out << std::setprecision(3);
  if (seconds < 1e-3)
    out << seconds * 1e6 << " us";
  else if (seconds < 1)
    out << seconds * 1e3 << " ms";
  else
    out << seconds << " s";
  return out.str();
}

std::string bytes_text(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(kUnits)) bytes /= 1024, ++unit;
  std::ostringstream out;
  out << std::setprecision(3) << bytes << ' ' << kUnits[unit];
  return out.str();
}

/// Forward and backward together over forward. On the CPU the sparse kernel makes nothing of size N×N or N×m×d for the
/// backward pass; the other routes move a dozen such tensors through memory.
void add_backward(Plan& plan, const MaskCounts& counts) {
  const bool on_cuda = plan.workload.device == at::kCUDA;
  for (RouteEstimate& estimate : plan.estimates) {
    const bool one_kernel = estimate.route == Route::sparse || estimate.route == Route::fused;
    estimate.seconds *= on_cuda ? cuda::training_factor(estimate.route, counts, plan.workload) : one_kernel ? 3.5 : 7;
  }
}

/// Chooses the fastest available route inside the budget and says why, for it and against the others.
void choose(const char* op, Plan& plan, const MaskCounts& counts) {
  if (plan.workload.training) add_backward(plan, counts);
  RouteEstimate* best = nullptr;
  for (RouteEstimate& estimate : plan.estimates) {
    if (!estimate.available) continue;
    if (estimate.bytes > static_cast<double>(plan.memory_budget)) {
      estimate.reason = "over the memory budget";
      continue;
    }
    if (best == nullptr || estimate.seconds < best->seconds) best = &estimate;
  }
  if (best == nullptr) {
    std::ostringstream table;
    plan.reason = "no route fits the memory budget";
    table << plan;
    TORCH_CHECK(false, op, ": memory_budget must allow one route, got ", plan.memory_budget, " bytes\n", table.str());
  }
  plan.route = best->route;
  for (RouteEstimate& estimate : plan.estimates) {
    if (&estimate == best || !estimate.available || !estimate.reason.empty()) continue;
    std::ostringstream slower;
    slower << std::setprecision(2) << estimate.seconds / best->seconds << "x the time";
    estimate.reason = slower.str();
  }
  best->reason = "chosen";
  plan.reason = std::string(to_string(best->route)) + " is estimated fastest within " +
                bytes_text(static_cast<double>(plan.memory_budget));
}

/// Strips that all scores of a call may make up on the CPU for the dense route to be taken without being named. In
/// training strips are computed twice, which takes 1.2 to 1.6 times as long as to keep their matrices.
constexpr double kDenseStrips = 1, kDenseStripsInTraining = 4;

bool dense_is_small(const Workload& w, double dense_bytes) {
  if (w.device == at::kCUDA) return dense_bytes <= kLargestDenseOnCuda;
  const auto nodes = static_cast<double>(w.nodes), strip = static_cast<double>(strip_values(/*on_cuda=*/false));
  return static_cast<double>(w.slices) * nodes * nodes <= strip * (w.training ? kDenseStripsInTraining : kDenseStrips);
}

/// The routes fused and strips compute the same without N×N matrices; the dense one is taken in place of strips where
/// such matrices are small, and where a caller names it.
void leave_out_dense(Plan& plan) {
  RouteEstimate &dense = plan.estimates.front(), &strips = plan.estimates[plan.estimates.size() - 2];
  const auto leave_out = [](RouteEstimate& estimate, const char* reason) {
    estimate.available = false;
    estimate.reason = reason;
  };
  const RouteEstimate& fused = plan.estimates.back();
  if (fused.available && fused.bytes <= static_cast<double>(plan.memory_budget)) {
    leave_out(dense, "fused computes it without N x N matrices");
    leave_out(strips, "fused computes it in tiles");
  } else if (!dense_is_small(plan.workload, dense.bytes)) {
    leave_out(dense, "strips computes it without N x N matrices");
  }
}

/// Whether a backward pass makes the gradient of the mask itself.
bool learns(const Mask& mask, const Workload& workload) {
  const auto parameters = mask.parameters();
  return workload.training &&
         std::any_of(parameters.begin(), parameters.end(), [](const at::Tensor& p) { return p.requires_grad(); });
}

void check_workload(const char* op, const Workload& w, int64_t memory_budget) {
  const auto at_least = [op](const char* name, int64_t value, int64_t least) {
    TORCH_CHECK(value >= least, op, ": ", name, " must be >= ", least, ", got ", value);
  };
  at_least("slices", w.slices, 0);
  at_least("heads", w.heads, 1);
  at_least("nodes", w.nodes, 0);
  at_least("features", w.features, 0);
  at_least("value_dim", w.value_dim, 0);
  at_least("threads", w.threads, 1);
  at_least("memory_budget", memory_budget, 0);
  TORCH_CHECK(w.device == at::kCPU || w.device == at::kCUDA, op, ": device must be cpu or cuda, got ", w.device);
  TORCH_CHECK(is_node_dtype(w.dtype, w.device), op, ": dtype must be ", node_dtypes(w.device), ", got ", w.dtype);
}

}  // namespace

const char* to_string(Route route) {
  return kRouteNames[route].data();
}

Plan plan_attention(const Mask& mask, const Workload& workload, int64_t memory_budget) {
  check_workload("plan_attention", workload, memory_budget);
  const MaskCounts counts = mask.counts();
  Plan plan{.mask = mask.name(), .workload = workload, .memory_budget = memory_budget};
  plan.estimates = {estimate_dense(counts, workload),
                    estimate_sparse(counts, workload),
                    estimate_features(counts, workload),
                    estimate_operator(mask, counts, workload),
                    estimate_strips(counts, workload, memory_budget),
                    estimate_fused(counts, workload, Weighting::kernel, learns(mask, workload))};
  leave_out_dense(plan);
  choose("attention", plan, counts);
  return plan;
}

Plan plan_softmax(const Mask& mask, const Workload& workload, bool additive, int64_t memory_budget) {
  check_workload("plan_softmax", workload, memory_budget);
  const MaskCounts counts = mask.counts();
  Plan plan{.mask = mask.name(), .workload = workload, .memory_budget = memory_budget};
  plan.estimates = {estimate_dense(counts, workload)};
  if (!additive) plan.estimates.push_back(estimate_sparse(counts, workload));
  plan.estimates.push_back(estimate_strips(counts, workload, memory_budget));
  const Weighting weighting = additive ? Weighting::additive : Weighting::multiplicative;
  plan.estimates.push_back(estimate_fused(counts, workload, weighting, learns(mask, workload)));
  leave_out_dense(plan);
  choose("softmax_attention", plan, counts);
  return plan;
}

std::ostream& operator<<(std::ostream& out, const Plan& plan) {
  const Workload& w = plan.workload;
  std::ostringstream table;
  table << "mask " << plan.mask << ": N " << w.nodes << ", batch x heads " << w.slices << ", m " << w.features << ", d "
        << w.value_dim << ", ";
  if (w.device == at::kCUDA) {
    table << "cuda";
  } else {
    table << w.threads << (w.threads == 1 ? " thread" : " threads");
  }
  table << (w.training ? ", forward and backward\n" : "\n");
  table << std::left << std::setw(10) << "route" << std::right << std::setw(10) << "time" << std::setw(12) << "memory"
        << "  verdict\n";
  for (const RouteEstimate& estimate : plan.estimates) {
    table << std::left << std::setw(10) << to_string(estimate.route) << std::right << std::setw(10)
          << (estimate.available ? seconds_text(estimate.seconds) : "-") << std::setw(12)
          << (estimate.available ? bytes_text(estimate.bytes) : "-") << "  " << estimate.reason << '\n';
  }
  return out << table.str() << plan.reason << '\n';
}

}  // namespace topomask
